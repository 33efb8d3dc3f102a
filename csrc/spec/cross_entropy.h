// What cross entropy and its kernels agree on.
//
// Over x of shape [outer, classes, inner] every line along the classes has a target t, a class. With p = softmax(x),
// weights w of the classes (ones where there are none) and label smoothing e, the line's loss is
//   (1 - e) w_t (-log p_t) + e / classes sum_c w_c (-log p_c)
// and its gradient (sum_c q_c) p - q, where q_c = (1 - e) w_t [c = t] + e w_c / classes. Both are zero where t
// is the ignored index. The mean divides by the sum of w_t.
#pragma once

namespace tapegrad {

enum class LossReduction : int { None, Mean, Sum };

}  // namespace tapegrad
