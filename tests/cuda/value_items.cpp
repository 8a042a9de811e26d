// Numbers that attention depends on and that lie on the device: what is wrong with them is told, wherever kernels run.
#include <cmath>
#include <limits>
#include <tuple>

#include "cuda/items.h"
#include "polyhead/attention.h"

namespace polyhead::test::gpu {
namespace {

// What a call with this option says, whose second number is `found`.
std::string said_of(Context& context, ConstTensorView AttentionOptions::*member, std::int32_t found) {
  const Tensor q = clone(context, Tensor::zeros({2, 2, 5, 8}, DType::f32));
  Tensor numbers = Tensor::zeros({2}, DType::i32);
  numbers.as<std::int32_t>()[1] = found;
  const Tensor bad = clone(context, numbers);
  AttentionOptions options;
  options.*member = bad;
  try {
    const Attention result = attend(context, q, q, q, options);
    context.synchronise();
    return "nothing";
  } catch (const Error& error) {
    return error.code() == ErrorCode::value ? error.what() : std::string("another error: ") + error.what();
  }
}

// A bad number is thrown by whoever waits, once; the device stays usable.
std::string bad_numbers_are_told(Context& context) {
  constexpr std::int32_t kFar = std::numeric_limits<std::int32_t>::max();
  const std::tuple<const char*, ConstTensorView AttentionOptions::*, std::int32_t, const char*> tried[] = {
      {"key_lengths[1]", &AttentionOptions::key_lengths, 77, "0 to 5"},
      {"key_start[1]", &AttentionOptions::key_start, 6, "0 to 5"},
      {"query_lengths[1]", &AttentionOptions::query_lengths, -1, "0 to 5"},
      {"first_positions[1]", &AttentionOptions::first_positions, kFar, "-1073741823 to 1073741823"}};
  for (const auto& [name, member, found, range] : tried) {
    const std::string said = said_of(context, member, found);
    for (const std::string& part :
         {std::string("attend"), std::string(name), std::string(range), "found " + std::to_string(found)}) {
      if (said.find(part) == std::string::npos) return "no '" + part + "' in: " + said;
    }
  }
  const Tensor q = clone(context, Tensor::zeros({2, 2, 5, 8}, DType::f32));
  const Attention good = attend(context, q, q, q);
  const Tensor back = to_host(context, good.output);
  for (std::int64_t n = 0; n < back.view().count(); ++n) {
    if (!std::isfinite(back.as<float>()[n])) return "the device is not usable afterwards";
  }
  return {};
}

}  // namespace

std::vector<Item> value_items() { return {{"values/bad_numbers_are_told", bad_numbers_are_told}}; }

}  // namespace polyhead::test::gpu
