// One recorded call of an op: its arguments as the dispatcher takes them, and the static tensors that its results go to.
#pragma once
#include "step.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <string>
#include <vector>

struct RecordedCall {
  std::string name; // "aten::add.Tensor"
  c10::OperatorHandle op;
  torch::jit::Stack arguments;
  std::vector<at::Tensor> results; // empty where the arguments hold the outputs already
};
