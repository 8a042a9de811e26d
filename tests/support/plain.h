// The yardstick: what a plain implementation makes of the same arguments in the same element type, and the exact
// results beside it.
//
// Plain means unfused: matmul, then one step after the other, softmax, matmul, with scores and weights rounded to the
// storage type in between and sums carried one after the other in f32. It is the oracle's own code
// (reference/attention_in.h) instantiated with such numbers: a second text would be longer, and a mistake in it would
// show as a large "error of the plain implementation", which is to say as tolerance for everybody.
#pragma once

#include <gtest/gtest.h>

#include "support/cases.h"

namespace polyhead::test {

// Room for the results that a case wants; `as` overrides the element types of the contract.
Attention make_results(const Materialised& m, std::optional<DType> as = {});
AttentionGradients make_gradients(const Materialised& m, std::optional<DType> as = {});
AttentionOutputs views_of(Attention& results);
AttentionGradientOutputs views_of(AttentionGradients& gradients);

// What the results of a case are judged by.
struct ExpectedResults {
  Attention exact;  // f64. Computed in double, or from f64 inputs in long double: double is then what is judged
  Attention plain;  // in the types of the contract; of several orders of summing the worst
};
struct ExpectedGradients {
  AttentionGradients exact, plain;
};
ExpectedResults expected_results(const Materialised& m);
ExpectedGradients expected_gradients(const Materialised& m);

// Where two logits are nearly equal, which one is larger is a matter of rounding, and max_offset cannot be judged.
// Reads weights and lse.
bool has_near_tie(const Attention& exact);

// The rule of compare.h for everything that the case wants.
::testing::AssertionResult judge(const ExpectedResults& expected, const AttentionOutputs& got);
::testing::AssertionResult judge(const ExpectedGradients& expected, const AttentionGradientOutputs& got);
::testing::AssertionResult judge(const Materialised& m, const AttentionOutputs& got);
::testing::AssertionResult judge(const Materialised& m, const AttentionGradientOutputs& got);

}  // namespace polyhead::test
