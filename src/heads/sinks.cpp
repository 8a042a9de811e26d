#include "heads/sinks.h"

#include "heads/importance.h"
#include "ops/on_host.h"

namespace polyhead::heads {

Estimate sink_share(Context& context, const model::Transformer& model, const std::vector<Tensor>& sequences,
                    double epsilon) {
  const model::Config& config = model.config();
  autograd::Tape tape(context, false);
  std::vector<double> shares;  // by sequence
  const auto heads = static_cast<double>(config.head_count());
  for (const Tensor& tokens : sequences) {
    tape.clear();
    model::PassOptions options;
    options.wants.attention.statistics = StatisticsSet::light;
    const auto first = static_cast<std::int64_t>(shares.size());
    shares.resize(shares.size() + static_cast<std::size_t>(heads > 0 ? tokens.shape()[0] : 0));
    model.through(tape, model.read(tape, tokens, options), 0, config.layers.size(), options);
    for (std::size_t layer = 0; layer < config.layers.size(); ++layer) {
      if (config.layers[layer].heads == 0) continue;
      const OnHost all(context, model.attention(tape, layer).forward.statistics);  // [B,H,F]
      const std::int64_t H = all.view().shape(1), F = all.view().shape(2);
      for (std::int64_t n = 0; n < all.view().count() / F; ++n) {
        const auto at = [&](Statistic which) {
          return static_cast<double>(all.as<float>()[n * F + static_cast<std::int64_t>(which)]);
        };
        const bool is_sink = at(Statistic::first_weight) > epsilon * at(Statistic::rows);
        shares[static_cast<std::size_t>(first + n / H)] += is_sink ? 1 / heads : 0;
      }
    }
  }
  return estimate(shares);
}

}  // namespace polyhead::heads
