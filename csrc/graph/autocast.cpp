#include "graph/autocast.h"

namespace tapegrad {

namespace {

// A function, because globals of other files are made before those of this one.
std::vector<const CastRule*>& rules() {
  static std::vector<const CastRule*> list;
  return list;
}

}  // namespace

const char* name(Cast cast) {
  constexpr const char* kNames[] = {"none", "lower", "float32", "total", "widest", "refused"};
  return kNames[static_cast<int>(cast)];
}

CastRule::CastRule(const char* function, Cast cpu, Cast cuda)
    : function(function), casts{cpu, cuda, Cast::None} {
  rules().push_back(this);
}

const std::vector<const CastRule*>& all_cast_rules() { return rules(); }

}  // namespace tapegrad
