#include "heads/sinks.h"

#include "ops/on_host.h"

namespace polyhead::heads {

double sink_share(Context& context, const model::Transformer& model, const std::vector<Tensor>& sequences,
                  double epsilon) {
  const model::Config& config = model.config();
  autograd::Tape tape(context, false);
  std::int64_t sinks = 0, pairs = 0;
  for (const Tensor& tokens : sequences) {
    tape.clear();
    model::PassOptions options;
    options.wants.attention.statistics = StatisticsSet::light;
    model.through(tape, model.read(tape, tokens, options), 0, config.layers.size(), options);
    for (std::size_t layer = 0; layer < config.layers.size(); ++layer) {
      if (config.layers[layer].heads == 0) continue;
      const OnHost all(context, model.attention(tape, layer).forward.statistics);  // [B,H,F]
      const std::int64_t F = all.view().shape(2);
      for (std::int64_t n = 0; n < all.view().count() / F; ++n) {
        const auto at = [&](Statistic which) {
          return static_cast<double>(all.as<float>()[n * F + static_cast<std::int64_t>(which)]);
        };
        sinks += at(Statistic::first_weight) > epsilon * at(Statistic::rows);
        ++pairs;
      }
    }
  }
  return pairs == 0 ? 0 : static_cast<double>(sinks) / static_cast<double>(pairs);
}

}  // namespace polyhead::heads
