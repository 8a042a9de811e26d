// Attention in ten lines, as the README shows it (a test compares what stands between the markers).
// [readme]
#include <polyhead/polyhead.h>

#include <cstdio>
#include <vector>

int main() {
  std::vector<float> x(4 * 16 * 512, 0.5f);  // [batch, tokens, width], as a model has it
  // Four heads of 128: a view, nothing is copied or transposed.
  auto heads = polyhead::ConstTensorView(x.data(), {4, 16, 4, 128}).transpose(1, 2);

  polyhead::Context context;
  auto result =
      polyhead::attend(context, heads, heads, heads, {.causal = true}, {.statistics = polyhead::StatisticsSet::light});

  const float* head = result.statistics.as<float>();  // of sequence 0, head 0
  std::printf("output %s, mean entropy of head 0: %.3f nats\n", to_string(result.output.shape()).c_str(),
              head[int(polyhead::Statistic::entropy)] / head[int(polyhead::Statistic::rows)]);
}
// [/readme]
