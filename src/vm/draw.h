// A picture of the model: layers from left to right, heads above, neurons below, and the slots each number lives in.
#pragma once

#include <string>

#include "vm/model.h"

namespace hearth::vm {

std::string draw_svg(const Model& model);

}  // namespace hearth::vm
