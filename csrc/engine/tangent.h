// Computing tangents: graph/forward.h, Note [Tangents by transposing].
#pragma once

namespace tapegrad {

// Makes the dispatch point compute waiting tangents. Called once, when the module is loaded.
void install_tangents();

}  // namespace tapegrad
