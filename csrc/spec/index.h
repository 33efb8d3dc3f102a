// What the index ops and their kernels agree on.
#pragma once

namespace tapegrad {

// Which indices are legal, and what an illegal one raises: PyTorch's ops differ.
enum class IndexRule : int {
  Wrap,           // negative ones count from the end; IndexError
  NoWrap,         // IndexError
  NoWrapRuntime,  // RuntimeError
};

// How a scattered value meets what is there.
enum class ScatterMode : int { Set, Add, Multiply, Maximum, Minimum };

}  // namespace tapegrad
