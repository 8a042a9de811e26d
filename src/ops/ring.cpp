#include "ops/ring.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <utility>

#include "core/numbers.h"
#include "ops/elementwise.h"
#include "ops/resolve.h"
#include "ops/ring_shards.h"

namespace polyhead::ops {
namespace {

using Message = Ranks::Message;
using Tensors = std::vector<Tensor>;

// f32 of 16 bits, so that no part is rounded before it is added.
Tensor widened(Context& context, const ConstTensorView& x) {
  if (size_of(x.dtype()) != 2) return clone(context, x);
  Tensor wide = Tensor::empty(x.shape(), DType::f32);
  copy(context, x, wide);
  return wide;
}

// ---- what goes from rank to rank

// Tensors of one chunk, and the messages that bring them.
struct Arrival {
  std::shared_ptr<Tensors> tensors = std::make_shared<Tensors>();
  std::vector<std::unique_ptr<Message>> messages{};

  void finish() {
    for (const auto& message : messages) message->finish();
    messages.clear();
  }
};

Arrival receive(Ranks& ranks, int from, Tensors room) {
  Arrival arrival;
  *arrival.tensors = std::move(room);
  for (Tensor& tensor : *arrival.tensors) arrival.messages.push_back(ranks.start_receive(bytes_of(tensor), from));
  return arrival;
}

// What is being sent stays here until the step by which it is taken. A rank waits only for steps before its own, so
// that ranks never wait in a circle, and holds few chunks at a time.
class Outbox {
 public:
  explicit Outbox(Ranks& ranks) : ranks_(ranks) {}
  void send(std::shared_ptr<Tensors> tensors, int to, int taken) {
    Sent sent{taken, std::move(tensors), {}};
    for (Tensor& tensor : *sent.tensors) sent.messages.push_back(ranks_.start_send(bytes_of(tensor), to));
    sent_.push_back(std::move(sent));
  }
  void settle(int step) {
    for (const Sent& sent : sent_) {
      if (sent.taken > step) continue;
      for (const auto& message : sent.messages) message->finish();
    }
    std::erase_if(sent_, [&](const Sent& sent) { return sent.taken <= step; });
  }

 private:
  struct Sent {
    int taken;
    std::shared_ptr<Tensors> tensors;
    std::vector<std::unique_ptr<Message>> messages;
  };

  Ranks& ranks_;
  std::vector<Sent> sent_;
};

// Once around the ring. At step n the chunks of keys are here whose owner is n places before this rank, if a query here
// sees them; those of the next step come, and these go on, while they are computed with. Messages between two ranks are
// started in the same order by both: at each step what `begin` starts, then the next chunks.
struct Around {
  Ranks& ranks;
  const RingShards& shards;
  Outbox& outbox;
  std::function<Tensors(int chunk)> own, room;
  std::function<void(int chunk, int place)> begin;  // before others come
  std::function<void(int chunk, int place, Tensors& tensors)> compute;

  void go() {
    std::vector<std::pair<int, Arrival>> here, next;
    for (const int chunk : shards.chunks_of(shards.here())) {
      here.emplace_back(chunk, Arrival{});
      *here.back().second.tensors = own(chunk);
    }
    for (int step = 0; step < shards.ranks(); ++step) {
      outbox.settle(step - 1);
      for (auto& [chunk, arrival] : here) arrival.finish();
      for (auto& [chunk, arrival] : here) begin(chunk, step);
      next = step + 1 < shards.ranks() ? coming(step + 1) : std::vector<std::pair<int, Arrival>>();
      for (auto& [chunk, arrival] : here) {
        if (const int to = shards.next_place(chunk, step)) {
          outbox.send(arrival.tensors, shards.rank_at(to, chunk), to - 1);
        }
      }
      for (auto& [chunk, arrival] : here) compute(chunk, step, *arrival.tensors);
      here = std::move(next);
    }
  }

 private:
  std::vector<std::pair<int, Arrival>> coming(int place) const {
    std::vector<std::pair<int, Arrival>> found;
    const int owner = (shards.here() + shards.ranks() - place) % shards.ranks();
    for (const int chunk : shards.chunks_of(owner)) {
      if (!shards.rank_sees(shards.here(), chunk)) continue;
      const int from = shards.rank_at(shards.previous_place(chunk, place), chunk);
      found.emplace_back(chunk, receive(ranks, from, room(chunk)));
    }
    return found;
  }
};

// ---- forward

// What some queries have seen of chunks of keys [first, last]: results in double where parts have met.
struct Seen {
  int first = 0, last = 0;
  Tensor output, lse, rows;  // rows: statistics, if wanted

  AttentionPart part() const { return {output, lse, rows}; }
};

Seen merged(const Seen& a, const Seen& b) {
  const auto room = [](const Tensor& x) { return x.present() ? Tensor::empty(x.shape(), DType::f64) : Tensor(); };
  Seen both{a.first, b.last, room(a.output), room(a.lse), room(a.rows)};
  const AttentionPart parts[] = {a.part(), b.part()};
  merge_attention(parts, {.output = both.output, .lse = both.lse, .row_statistics = both.rows});
  return both;
}

// Statistics want their parts in the order of the keys, so that neighbours alone are merged then, and few are left.
void add(std::vector<Seen>& all, Seen more) {
  const bool ordered = more.rows.present();
  const auto found = std::find_if(all.begin(), all.end(), [&](const Seen& one) {
    return !ordered || one.last + 1 == more.first || more.last + 1 == one.first;
  });
  if (found == all.end()) {
    all.push_back(std::move(more));
    return;
  }
  Seen both = found->first < more.first ? merged(*found, more) : merged(more, *found);
  all.erase(found);
  add(all, std::move(both));
}

// Where the results of a rank go, chunk by chunk of its queries.
class Results {
 public:
  Results(const RingShards& shards, const ConstTensorView& q, const ConstTensorView& v, const AttentionWants& wants)
      : shards_(shards), numbers_(q.dtype() == DType::f64 ? DType::f64 : DType::f32) {
    const Dims rows{q.shape(0), q.shape(1), q.shape(2)};
    const std::int64_t fields = wants.statistics == StatisticsSet::full ? kFullStatistics : kLightStatistics;
    result_.output = Tensor::empty({rows[0], rows[1], rows[2], v.shape(3)}, q.dtype());
    if (q.dtype() != numbers_) result_.wide_output = Tensor::empty(result_.output.shape(), numbers_);
    result_.lse = Tensor::empty(rows, numbers_);
    if (wants.row_statistics) result_.row_statistics = Tensor::empty({rows[0], rows[1], rows[2], fields}, numbers_);
    if (wants.statistics == StatisticsSet::none) return;
    sums_ = Tensor::zeros({shards.sequence_count(), rows[1], fields}, DType::f64);
    for (std::int64_t n = 0; n < sums_.shape()[0] * rows[1]; ++n) {
      sums_.as<double>()[n * fields + static_cast<int>(Statistic::max_logit)] =
          -std::numeric_limits<double>::infinity();
    }
  }
  void store(int chunk, std::vector<Seen> seen) {
    std::sort(seen.begin(), seen.end(), [](const Seen& a, const Seen& b) { return a.first < b.first; });
    for (const RingShards::Batch& batch : shards_.batches_in(chunk)) {
      const auto some = [&](const auto& x) { return x.present() ? x.slice(2, batch.rows.begin, batch.rows.end) : x; };
      const auto place = [&](Tensor& x) { return some(shards_.queries_in(x.view(), 2, chunk)); };
      std::vector<AttentionPart> parts;
      for (const Seen& one : seen)
        parts.push_back(
            {some(ConstTensorView(one.output)), some(ConstTensorView(one.lse)), some(ConstTensorView(one.rows))});
      const TensorView of_batch = sums_.present() ? sums_.view().slice(0, batch.begin, batch.end) : TensorView();
      Tensor sums = sums_.present() ? Tensor::empty(of_batch.shape(), DType::f64) : Tensor();
      merge_attention(parts, {.output = place(result_.wide_output.present() ? result_.wide_output : result_.output),
                              .lse = place(result_.lse),
                              .statistics = sums,
                              .row_statistics = place(result_.row_statistics)});
      if (sums.present()) merge_statistics(of_batch, sums);
    }
  }
  // With the sums over all ranks, in their order.
  RingAttention finish(Context& context, Ranks& ranks) {
    if (result_.wide_output.present()) copy(context, result_.wide_output, result_.output);
    if (!sums_.present()) return std::move(result_);
    result_.statistics = Tensor::empty(sums_.shape(), numbers_);
    const std::span<std::byte> bytes = bytes_of(sums_);
    Tensor total, more = Tensor::empty(sums_.shape(), DType::f64);
    for (const std::string& text : ranks.gather({reinterpret_cast<const char*>(bytes.data()), bytes.size()})) {
      std::memcpy(bytes_of(more).data(), text.data(), text.size());
      if (total.present()) {
        merge_statistics(total, more);
      } else {
        total = std::exchange(more, Tensor::empty(sums_.shape(), DType::f64));
      }
    }
    const double* from = total.as<double>();
    for (std::int64_t n = 0; n < total.view().count(); ++n) {
      store_number(from[n], numbers_,
                   bytes_of(result_.statistics).data() + static_cast<std::size_t>(n) * size_of(numbers_));
    }
    return std::move(result_);
  }

 private:
  const RingShards& shards_;
  DType numbers_;
  RingAttention result_;
  Tensor sums_;  // of this rank's rows
};

}  // namespace

RingAttention ring_attend(Context& context, const Ring& ring, const ConstTensorView& q, const ConstTensorView& k,
                          const ConstTensorView& v, const AttentionOptions& options, const AttentionWants& wants) {
  const RingShards shards(context, ring, q, k, v, options, wants);
  const std::vector<int> own = shards.chunks_of(shards.here());
  const Tensor wide = widened(context, q);
  std::vector<std::vector<Seen>> seen(own.size());
  const auto see = [&](std::size_t n, int chunk, const ConstTensorView& keys, const ConstTensorView& values,
                       const ConstTensorView& marked) {
    const RingShards::Call call = shards.call(own[n], chunk, marked);
    Attention part = attend(context, shards.queries_in(wide.view(), 2, own[n]), keys, values, call.options, call.wants);
    add(seen[n], {chunk, chunk, std::move(part.output), std::move(part.lse), std::move(part.row_statistics)});
  };
  const auto marked = [](const Tensors& here) { return here.size() > 2 ? here[2].view() : TensorView(); };
  Outbox outbox(ring.ranks);
  Around{ring.ranks,
         shards,
         outbox,
         [&](int chunk) {
           Tensors tensors;
           tensors.push_back(clone(context, shards.keys_in(k, 2, chunk)));
           tensors.push_back(clone(context, shards.keys_in(v, 2, chunk)));
           if (wants.marked_keys.present())
             tensors.push_back(clone(context, shards.keys_in(wants.marked_keys, 1, chunk)));
           return tensors;
         },
         [&](int chunk) {
           const std::int64_t rows = shards.key_count(chunk);
           Tensors tensors;
           tensors.push_back(Tensor::empty({k.shape(0), k.shape(1), rows, k.shape(3)}, k.dtype()));
           tensors.push_back(Tensor::empty({v.shape(0), v.shape(1), rows, v.shape(3)}, v.dtype()));
           if (wants.marked_keys.present()) tensors.push_back(Tensor::empty({k.shape(0), rows}, DType::boolean));
           return tensors;
         },
         [](int, int) {},
         [&](int chunk, int, Tensors& here) {
           for (std::size_t n = 0; n < own.size(); ++n) {
             if (!shards.computes(own[n], chunk)) continue;
             see(n, chunk, here[0], here[1], marked(here));
           }
         }}
      .go();
  outbox.settle(shards.ranks());
  Results results(shards, q, v, wants);
  for (std::size_t n = 0; n < own.size(); ++n) {
    if (shards.query_count(own[n]) == 0) continue;
    if (seen[n].empty()) {  // queries that see nothing at all
      const auto keys = [&](const ConstTensorView& x, int axis) { return shards.keys_in(x, axis, own[0]); };
      see(n, own[0], keys(k, 2), keys(v, 2), keys(wants.marked_keys, 1));
    }
    results.store(own[n], std::move(seen[n]));
  }
  return results.finish(context, ring.ranks);
}

namespace {

void add_to(Context& context, Tensor& sum, const Tensor& more) {
  if (!more.present()) return;
  if (!sum.present()) {
    sum = clone(context, more);
    return;
  }
  elementwise(context, Elementwise::add, sum, more, sum);
}

// The sum over ranks, in their order, on all of them.
void sum_over_ranks(Ranks& ranks, Tensor& numbers) {
  if (!numbers.present() || ranks.size() == 1) return;
  const std::span<std::byte> bytes = bytes_of(numbers);
  const auto add = [&]<class Real>(Real* to) {
    std::vector<double> sums(static_cast<std::size_t>(numbers.view().count()));
    for (const std::string& text :
         ranks.gather(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()))) {
      for (std::size_t n = 0; n < sums.size(); ++n) {
        Real number;
        std::memcpy(&number, text.data() + n * sizeof number, sizeof number);
        sums[n] += static_cast<double>(number);
      }
    }
    std::transform(sums.begin(), sums.end(), to, [](double sum) { return static_cast<Real>(sum); });
  };
  numbers.dtype() == DType::f64 ? add(numbers.as<double>()) : add(numbers.as<float>());
}

// dk and dv of a chunk follow its keys, a step later: whoever saw the chunk adds its own to what comes from the one
// before, and sends them on, the last one home to the owner, who adds what it had itself.
class GradientsOfKeys {
 public:
  GradientsOfKeys(Context& context, Ranks& ranks, const RingShards& shards, Outbox& outbox,
                  std::function<Tensors(int chunk)> zeros)
      : context_(context), ranks_(ranks), shards_(shards), outbox_(outbox), zeros_(std::move(zeros)) {}

  void begin(int chunk, int place) {
    const int before = shards_.previous_place(chunk, place);
    if (before > 0) coming_.emplace(chunk, receive(ranks_, shards_.rank_at(before, chunk), zeros_(chunk)));
  }
  // What this rank has to add.
  void add(int chunk, int place, Tensors own) {
    const auto sum = std::make_shared<Tensors>(std::move(own));
    if (const auto found = coming_.find(chunk); found != coming_.end()) {
      found->second.finish();
      for (std::size_t n = 0; n < sum->size(); ++n) add_to(context_, (*sum)[n], (*found->second.tensors)[n]);
      coming_.erase(found);
    }
    if (place == 0) {
      home_.emplace(chunk, std::move(*sum));
      return;
    }
    const int next = shards_.next_place(chunk, place);
    outbox_.send(sum, shards_.rank_at(next, chunk), next > 0 ? next : shards_.ranks());
  }
  // At the end, those of this rank's chunks.
  std::map<int, Tensors> take() {
    for (const int chunk : shards_.chunks_of(shards_.here())) begin(chunk, shards_.ranks());
    for (auto& [chunk, arrival] : coming_) {
      arrival.finish();
      for (std::size_t n = 0; n < arrival.tensors->size(); ++n) {
        add_to(context_, home_.at(chunk)[n], (*arrival.tensors)[n]);
      }
    }
    return std::move(home_);
  }

 private:
  Context& context_;
  Ranks& ranks_;
  const RingShards& shards_;
  Outbox& outbox_;
  std::function<Tensors(int chunk)> zeros_;
  std::map<int, Arrival> coming_;
  std::map<int, Tensors> home_;
};

// Everything that attend_backward would refuse of one rank's own, before others wait for what it sends.
void check_backward(const ConstTensorView& q, const ConstTensorView& v, const AttentionOptions& options,
                    const UpstreamGradients& upstream, const GradientWants& wants, const RingAttention& forward) {
  constexpr Op op{"ring_attend_backward", Device{}};
  const Dims output{q.shape(0), q.shape(1), q.shape(2), v.shape(3)}, rows{q.shape(0), q.shape(1), q.shape(2)};
  const DType numbers = q.dtype() == DType::f64 ? DType::f64 : DType::f32;
  if (upstream.weights.present()) {
    throw Error(ErrorCode::unsupported, op,
                "dweights: expected none around a ring, since no rank has a row of the weights; leave it out");
  }
  if (wants.bias) throw Error(ErrorCode::unsupported, op, "bias: expected none around a ring; want no gradient of it");
  if (wants.sink_logit && !options.sink_logit.present()) {
    throw Error(ErrorCode::value, op, "the gradient of sink_logit is wanted, but there is no sink_logit");
  }
  Argument{op, "doutput", upstream.output}.expect_input(output, q.dtype());
  Argument{op, "doutput", upstream.output}.expect_last_stride_one();
  if (upstream.lse.present()) Argument{op, "dlse", upstream.lse}.expect_input(rows, numbers);
  const bool wide = forward.wide_output.present();
  Argument{op, "forward output", wide ? forward.wide_output : forward.output}.expect_input(output,
                                                                                           wide ? numbers : q.dtype());
  Argument{op, "forward lse", forward.lse}.expect_input(rows, numbers);
}

}  // namespace

AttentionGradients ring_attend_backward(Context& context, const Ring& ring, const ConstTensorView& q,
                                        const ConstTensorView& k, const ConstTensorView& v,
                                        const AttentionOptions& options, const UpstreamGradients& upstream,
                                        const GradientWants& wants, const RingAttention& forward) {
  const RingShards shards(context, ring, q, k, v, options, {});
  together(ring.ranks, [&] { check_backward(q, v, options, upstream, wants, forward); });
  if (ring.ranks.size() > 1) {
    const std::string wanted = std::string(wants.sink_logit ? "sink_logit " : "") + (wants.gates ? "gates" : "");
    expect_agreement(ring.ranks, "ring_attend_backward", {{"set of wanted gradients", wanted}});
  }
  const std::vector<int> own = shards.chunks_of(shards.here());
  const Tensor wide = widened(context, q),
               output = widened(context, forward.wide_output.present() ? forward.wide_output : forward.output),
               doutput = widened(context, upstream.output);
  const DType real = wide.dtype();
  const auto like = [&](const ConstTensorView& x, int chunk, DType dtype) {
    return Tensor::zeros({x.shape(0), x.shape(1), shards.key_count(chunk), x.shape(3)}, dtype);
  };
  const auto both = [](Tensor a, Tensor b) {
    Tensors tensors;
    tensors.push_back(std::move(a));
    tensors.push_back(std::move(b));
    return tensors;
  };
  const auto zeros = [&](int chunk) { return both(like(k, chunk, real), like(v, chunk, real)); };
  AttentionGradients sums;
  if (wants.sink_logit) sums.dsink_logit = Tensor::zeros({q.shape(1)}, real);
  if (wants.gates) {
    const std::int64_t sequences = options.cu_q.present() ? options.cu_q.shape(0) - 1 : q.shape(0);
    sums.dgates = Tensor::zeros({sequences, q.shape(1)}, real);
  }
  std::vector<Tensor> dq(own.size());
  Outbox outbox(ring.ranks);
  GradientsOfKeys dkeys(context, ring.ranks, shards, outbox, zeros);
  const auto compute = [&](int chunk, int place, Tensors& here) {
    const Tensor keys = widened(context, here[0]), values = widened(context, here[1]);
    Tensors found = zeros(chunk);
    for (std::size_t n = 0; n < own.size(); ++n) {
      if (!shards.computes(own[n], chunk)) continue;
      const auto mine = [&](const ConstTensorView& x) { return shards.queries_in(x, 2, own[n]); };
      const RingShards::Call call = shards.call(own[n], chunk);
      const AttentionGradients part =
          attend_backward(context, mine(wide), keys, values, call.options, {mine(doutput), mine(upstream.lse), {}},
                          {.sink_logit = wants.sink_logit && call.options.sink_logit.present(), .gates = wants.gates},
                          {mine(output), mine(forward.lse), true});
      add_to(context, dq[n], part.dq);
      add_to(context, found[0], part.dk);
      add_to(context, found[1], part.dv);
      add_to(context, sums.dsink_logit, part.dsink_logit);
      add_to(context, sums.dgates, part.dgates);
    }
    dkeys.add(chunk, place, std::move(found));
  };
  Around{ring.ranks,
         shards,
         outbox,
         [&](int chunk) {
           return both(clone(context, shards.keys_in(k, 2, chunk)), clone(context, shards.keys_in(v, 2, chunk)));
         },
         [&](int chunk) { return both(like(k, chunk, k.dtype()), like(v, chunk, v.dtype())); },
         [&](int chunk, int place) { dkeys.begin(chunk, place); },
         compute}
      .go();
  const std::map<int, Tensors> home = dkeys.take();
  outbox.settle(shards.ranks());
  const auto stored = [&](const ConstTensorView& x, const auto& chunk_of, const auto& rows_in) {
    Tensor made = Tensor::zeros(x.shape(), x.dtype());
    for (std::size_t n = 0; n < own.size(); ++n) {
      const Tensor& chunk = chunk_of(n);
      if (chunk.present()) copy(context, chunk, rows_in(made.view(), own[n]));
    }
    return made;
  };
  const auto queries = [&](const TensorView& x, int chunk) { return shards.queries_in(x, 2, chunk); };
  const auto keys = [&](const TensorView& x, int chunk) { return shards.keys_in(x, 2, chunk); };
  sums.dq = stored(
      q, [&](std::size_t n) -> const Tensor& { return dq[n]; }, queries);
  sums.dk = stored(
      k, [&](std::size_t n) -> const Tensor& { return home.at(own[n])[0]; }, keys);
  sums.dv = stored(
      v, [&](std::size_t n) -> const Tensor& { return home.at(own[n])[1]; }, keys);
  sum_over_ranks(ring.ranks, sums.dsink_logit);
  sum_over_ranks(ring.ranks, sums.dgates);
  return sums;
}

}  // namespace polyhead::ops
