// The backward pass of attention on the CPU: the list of work items, and one compilation of the kernel per vector
// instruction set.
#include "cpu/copies.h"
#include "cpu/kernels.h"
#include "cpu/split.h"
#include "cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/attention_backward.cpp"
#include <hwy/foreach_target.h>  // includes this file once per target

#include "cpu/bias_gradient-inl.h"

HWY_BEFORE_NAMESPACE();
namespace polyhead::cpu::HWY_NAMESPACE {

// Does any panel see more keys than one tile holds? Only then are the results of the forward pass read, unless they are
// merged.
bool needs_forward(const kernels::AttentionGradientProblem& problem) {
  const auto longer = [](std::int64_t keys) { return keys > static_cast<std::int64_t>(kBlock); };
  for (const kernels::Sequence& sequence : problem.forward.sequences) {
    if (longer(sequence.keys)) return true;
  }
  return problem.dbias.present() && longer(problem.forward.k.shape(2));
}

template <class T>
class Backward {
 public:
  Backward(Team& team, const std::shared_ptr<Allocator>& memory, const kernels::AttentionGradientProblem& problem)
      : team_(team),
        problem_(problem),
        forward_(problem.forward),
        heads_per_kv_(forward_.heads / std::max<std::int64_t>(forward_.kv_heads, 1)) {
    for (std::int64_t n = 0; n < forward_.sequences.count; ++n) {
      shared_.first_panel.push_back(shared_.panels);
      shared_.panels += forward_.heads * panels_of<T>(forward_.sequences[n]);
      const std::int64_t blocks = blocks_of(n);
      first_block_.push_back(blocks_);
      blocks_ += forward_.kv_heads * blocks;
      most_blocks_ = std::max(most_blocks_, blocks);
    }
    members_ = members_for(team, work_of() / kWorkPerThread);
    const std::int64_t all = std::max(problem.all_heads, forward_.heads);
    const std::int64_t heads = std::max<std::int64_t>(forward_.heads, 1);
    shared_.copies = copies_of_dq(forward_.sequences.count * forward_.kv_heads * all / heads, blocks_of_panel(),
                                  numbers_of_dq() / heads * all);
    list_items();
    const auto panels = static_cast<std::size_t>(shared_.panels), copies = static_cast<std::size_t>(shared_.copies);
    shared_.done = std::make_unique<Awaited[]>(copies * panels);
    shared_.sink_parts.resize(panels);
    gate_parts_.resize(static_cast<std::size_t>(blocks_ * heads_per_kv_));
    if (needs_forward(problem) && !problem.merged) {
      shared_.weight_sums.resize(copies * panels * kPanel<T>);
      if (problem.dweights.present() || lse_is_far()) {
        for (std::vector<T>* numbers : {&shared_.norm, &shared_.delta}) numbers->resize(panels * kPanel<T>);
      }
    }
    if (problem.dgates.present()) gate_sums_.resize(static_cast<std::size_t>(problem.dgates.count()));
    const auto head_dim = static_cast<std::size_t>(forward_.head_dim);
    const bool in_place = problem.dq.dtype() == dtype_of<T> && problem.dq.stride(2) >= forward_.head_dim;
    if (!in_place || padded<T>(head_dim) != head_dim || shared_.copies > 1) {
      dq_memory_ = Tensor::empty({shared_.copies * numbers_of_dq()}, dtype_of<T>, memory);
      shared_.dq = static_cast<T*>(dq_memory_.view().data());
    }
    const Split split = split_of(team, static_cast<std::int64_t>(items_.size()), work_of());
    // Blocks of one head wait for each other: a member that claims several at once would keep the rest waiting.
    if (!blocks_wait()) grain_ = split.grain;
    // Takes all memory before any result is written, so that a failure leaves the outputs untouched.
    for (int member = 0; member < members_; ++member) carve<GradientWorkspace<T>>(team.scratch(member), problem);
  }

  void run() {
    if (!shared_.norm.empty()) {
      for_panels(
          [&](const GradientWorkspace<T>& w, const GradientHead<T>& head, std::int64_t i) { walk_panel(w, head, i); });
    }
    find_key_gradients();
    if (problem_.dbias.present()) {
      const BiasGradient<T> bias(problem_, shared_);
      for_each(bias.items(), [&](const GradientWorkspace<T>& w, std::int64_t i) { bias.run(w, i); });
    }
    if (shared_.dq != nullptr) {
      for_panels([&](const GradientWorkspace<T>&, const GradientHead<T>& head, std::int64_t i) { store_dq(head, i); });
    }
    clear_absent();
    if (problem_.dsink_logit.present()) store_sinks();
    if (problem_.dgates.present()) store_gates();
  }

 private:
  std::int64_t numbers_of_dq() const {  // of one copy
    const std::size_t D = padded<T>(static_cast<std::size_t>(forward_.head_dim));
    return shared_.panels * static_cast<std::int64_t>(kPanel<T> * D);
  }
  // Blocks of keys that a panel may see, at most.
  std::int64_t blocks_of_panel() const {
    const auto block = static_cast<std::int64_t>(kBlock), rows = static_cast<std::int64_t>(kPanel<T>);
    const std::int64_t seen = forward_.mask_of({.keys = most_blocks_ * block}).most_keys(rows);
    return std::min<std::int64_t>(most_blocks_, seen / block + 2);
  }

  // A strand is the blocks that add to one copy of a head's dq, one after the other. For as many strands as there are
  // members, lists the first blocks of each, then the next, and so on: members work on different strands, and the block
  // that one waits for was claimed long before. Listing one head's blocks in a row made all members wait for each other
  // along the diagonal of a causal mask. Items have fewer blocks towards the end, so that members finish together, and
  // a single one where several members share a strand: whoever follows another goes at its pace.
  void list_items() {
    const std::int64_t copies = shared_.copies;
    std::vector<KeyItem> strands;  // what is left of each
    strands.reserve(static_cast<std::size_t>(forward_.sequences.count * forward_.kv_heads * copies));
    for (std::int64_t n = 0; n < forward_.sequences.count; ++n) {
      const std::int64_t blocks = blocks_of(n);
      for (std::int64_t g = 0; g < forward_.kv_heads; ++g) {
        for (std::int64_t copy = 0; copy < std::min(copies, blocks); ++copy) strands.push_back({n, g, copy, blocks});
      }
    }
    if (most_blocks_ == 1) return items_.swap(strands);  // a strand of one block is an item
    items_.reserve(static_cast<std::size_t>(blocks_));
    std::int64_t left = blocks_;
    const auto members = static_cast<std::size_t>(members_);
    for (std::size_t begin = 0; begin < strands.size(); begin += members) {
      const std::size_t end = std::min(begin + members, strands.size());
      for (bool more = true; more;) {
        more = false;
        const std::int64_t at_once = blocks_at_once(end - begin, left);
        for (std::size_t i = begin; i < end; ++i) {
          KeyItem& strand = strands[i];
          if (strand.begin >= strand.end) continue;
          KeyItem item = strand;
          item.end = std::min(strand.begin + at_once * copies, strand.end);
          items_.push_back(item);
          left -= (item.end - item.begin + copies - 1) / copies;
          strand.begin += at_once * copies;
          more = more || strand.begin < strand.end;
        }
      }
    }
  }
  // Blocks of an item, where `left` are left and so many strands go side by side.
  std::int64_t blocks_at_once(std::size_t strands, std::int64_t left) const {
    if (members_ == 1) return kBlocksAtOnce;
    if (strands < static_cast<std::size_t>(members_)) return 1;
    return std::clamp<std::int64_t>(left / (3 * members_), 1, kBlocksAtOnce);
  }
  bool blocks_wait() const { return most_blocks_ > 1; }
  std::int64_t blocks_of(std::int64_t n) const { return KeyBlocks(forward_.sequences[n]).count; }

  double work_of() const {
    double scores = 0;
    for (const kernels::Sequence& sequence : forward_.sequences) {
      scores += static_cast<double>(sequence.queries) * static_cast<double>(sequence.keys);
    }
    const double share = forward_.mask.causal ? 0.5 : 1.0;
    return share * scores * static_cast<double>(forward_.heads * (3 * forward_.head_dim + 2 * forward_.value_dim));
  }

  void find_key_gradients() {
    const auto count = static_cast<std::int64_t>(items_.size());
    const auto make_work = work_with_memory([&](const GradientWorkspace<T>& w, std::int64_t i) {
      const KeyItem& item = items_[static_cast<std::size_t>(i)];
      KeyGradients<T>(problem_, shared_, w, item).run(gate_parts(item.sequence, item.kv_head));
    });
    blocks_wait() ? team_.for_each(count, grain_, members_of(count), make_work)
                  : team_.for_shares(count, grain_, members_of(count), make_work);
  }
  // work(w, item) for every item.
  template <class Work>
  void for_each(std::int64_t count, const Work& work) {
    team_.for_shares(count, 1, members_of(count), work_with_memory(work));
  }
  int members_of(std::int64_t items) const { return static_cast<int>(std::clamp<std::int64_t>(items, 1, members_)); }
  // work(w, item) in the form that the team takes, w being the member's memory.
  template <class Work>
  auto work_with_memory(const Work& work) {
    return [this, work](int member) {
      const auto w = carve<GradientWorkspace<T>>(team_.scratch(member), problem_);
      return [&work, w](std::int64_t item) { work(w, item); };
    };
  }
  // work(w, head, panel) for every panel of every head.
  template <class Work>
  void for_panels(const Work& work) {
    for_each(shared_.panels, [&](const GradientWorkspace<T>& w, std::int64_t place) {
      const std::vector<std::int64_t>& firsts = shared_.first_panel;
      const std::int64_t n = std::upper_bound(firsts.begin(), firsts.end(), place) - firsts.begin() - 1;
      const std::int64_t within = place - firsts[static_cast<std::size_t>(n)];
      const std::int64_t panels = panels_of<T>(forward_.sequences[n]);
      work(w, GradientHead<T>(problem_, n, within / panels, w), within % panels);
    });
  }

  // visit(keys) for the blocks that the panel sees.
  template <class Visit>
  static void for_blocks(const GradientHead<T>& head, const PanelRows<T>& panel, const Visit& visit) {
    const KeyBlocks blocks(head.head().sequence);
    for (std::int64_t b = 0; b < blocks.count; ++b) {
      const kernels::KeyRange seen = head.head().seen_by(panel, blocks[b]);
      if (!seen.empty()) visit(seen);
    }
  }

  bool lse_is_far() const {
    std::vector<T> row(static_cast<std::size_t>(problem_.lse.shape(2)));
    for (std::int64_t b = 0; b < problem_.lse.shape(0); ++b) {
      for (std::int64_t h = 0; h < problem_.lse.shape(1); ++h) {
        const auto* from =
            static_cast<const T*>(problem_.lse.data()) + b * problem_.lse.stride(0) + h * problem_.lse.stride(1);
        if (problem_.lse.stride(2) != 1) {
          for (std::size_t t = 0; t < row.size(); ++t)
            row[t] = from[static_cast<std::int64_t>(t) * problem_.lse.stride(2)];
          from = row.data();
        }
        if (GradientHead<T>::any_beyond(GradientHead<T>::kFar, from, row.size())) return true;
      }
    }
    return false;
  }

  // Walks over all keys of a panel ahead of the blocks: to normalise its rows again where lse is far from 0, and to sum
  // delta where dweights add to dO . O.
  void walk_panel(const GradientWorkspace<T>& w, const GradientHead<T>& head, std::int64_t index) {
    if (!head.sends()) return;
    GradientPanel<T> panel;
    panel.take_place(w, 0);
    head.load(index, false, panel);
    const auto for_seen = [&](const auto& visit) { for_blocks(head, panel, visit); };
    if (GradientHead<T>::any_beyond(GradientHead<T>::kFar, panel.lse, panel.rows)) head.normalise(panel, for_seen);
    if (problem_.dweights.present()) sum_delta(head, panel, for_seen);
    const std::size_t at = static_cast<std::size_t>(shared_.place_of(head, index)) * kPanel<T>;
    std::copy_n(panel.norm, kPanel<T>, shared_.norm.data() + at);
    std::copy_n(panel.delta, kPanel<T>, shared_.delta.data() + at);
  }
  // delta = sum P dP / sum P: divided, so that the rounding of lse does not scale dP, which may be far larger than dS.
  template <class ForBlocks>
  void sum_delta(const GradientHead<T>& head, GradientPanel<T>& panel, const ForBlocks& for_seen) const {
    panel.sums_delta = panel.sums_weights = true;
    std::fill_n(panel.delta, kPanel<T>, T{0});
    alignas(64) T gate_sum[kPanel<T>] = {};
    T sums[kPanel<T>];
    for (std::size_t r = 0; r < panel.rows; ++r) sums[r] = panel.norm[r] * panel.sink_weight[r];
    for_seen([&](kernels::KeyRange keys) {
      head.make_tile(panel, keys, head.read_keys(keys), head.read_values(keys), T{1}, gate_sum);
      for (std::size_t r = 0; r < panel.rows; ++r) sums[r] += panel.weight_sum[r];
    });
    for (std::size_t r = 0; r < panel.rows; ++r) {
      if (sums[r] != 0) panel.delta[r] /= sums[r];
    }
  }

  std::byte* dq_row(const kernels::Sequence& sequence, std::int64_t h, std::int64_t row) const {
    const TensorView& dq = problem_.dq;
    const std::int64_t at =
        sequence.batch * dq.stride(0) + h * dq.stride(1) + (sequence.query_begin + row) * dq.stride(2);
    return static_cast<std::byte*>(dq.data()) + at * static_cast<std::int64_t>(size_of(dq.dtype()));
  }
  void store_dq(const GradientHead<T>& head, std::int64_t index) {
    const PanelRows<T> rows = head.rows_of(index);
    const T* from = shared_.copies > 1 ? sum_copies(head, rows, index) : shared_.dq_of(head, index, 0);
    for (std::size_t r = 0; r < rows.rows; ++r, from += head.padded_D()) {
      narrow(from, head.head().D, dq_row(head.head().sequence, head.head().h, rows.row + static_cast<std::int64_t>(r)),
             problem_.dq.dtype());
    }
  }
  // Adds up the copies of a panel's dq that any block has written to, in the memory of the first, which it returns. A
  // panel that sees nothing, or whose head is closed, is 0 in copy 0.
  const T* sum_copies(const GradientHead<T>& head, const PanelRows<T>& rows, std::int64_t index) {
    const Tag<T> d;
    const std::size_t size = rows.rows * head.padded_D();
    T *total = nullptr, *weights = nullptr;
    for (std::int64_t copy = 0; head.takes_part() && copy < shared_.copies; ++copy) {
      if (!sees_any(head, rows, copy)) continue;
      T* part = shared_.dq_of(head, index, copy);
      T* part_weights = problem_.merged ? nullptr : shared_.weight_sums_of(head, index, copy);
      if (total == nullptr) {
        total = part;
        weights = part_weights;
        continue;
      }
      for (std::size_t at = 0; at < size; at += kLanes<T>) {
        hn::Store(hn::Add(hn::Load(d, total + at), hn::Load(d, part + at)), d, total + at);
      }
      for (std::size_t r = 0; weights != nullptr && r < rows.rows; ++r) weights[r] += part_weights[r];
    }
    if (total == nullptr) return shared_.dq_of(head, index, 0);
    if (weights != nullptr) divide_rows(rows.rows, head.padded_D(), weights, total, head.padded_D());
    return total;
  }
  // Does the panel see any block of a copy?
  bool sees_any(const GradientHead<T>& head, const PanelRows<T>& rows, std::int64_t copy) const {
    const KeyBlocks blocks(head.head().sequence);
    while (copy < blocks.count && head.head().seen_by(rows, blocks[copy]).empty()) copy += shared_.copies;
    return copy < blocks.count;
  }

  // Queries that are padding and keys that no sequence owns have gradient 0.
  void clear_absent() const {
    const std::size_t bytes = static_cast<std::size_t>(forward_.head_dim) * size_of(problem_.dq.dtype());
    for (const kernels::Sequence& sequence : forward_.sequences) {
      for (std::int64_t h = 0; h < forward_.heads; ++h) {
        for (std::int64_t i = sequence.queries; i < sequence.rows; ++i) std::memset(dq_row(sequence, h, i), 0, bytes);
      }
    }
    std::int64_t batch = 0, end = 0;  // keys of the batch row up to here are done
    const auto up_to = [&](std::int64_t key) {
      for (const TensorView* gradient : {&problem_.dk, &problem_.dv}) clear_keys(*gradient, batch, end, key);
    };
    for (const kernels::Sequence& sequence : forward_.sequences) {
      if (sequence.batch != batch) {
        up_to(problem_.dk.shape(2));
        batch = sequence.batch;
        end = 0;
      }
      up_to(sequence.key_begin);
      end = std::max(end, sequence.key_begin + sequence.keys);
    }
    if (forward_.sequences.count > 0) up_to(problem_.dk.shape(2));
  }
  static void clear_keys(const TensorView& to, std::int64_t batch, std::int64_t begin, std::int64_t end) {
    const auto size = static_cast<std::int64_t>(size_of(to.dtype()));
    for (std::int64_t g = 0; g < to.shape(1); ++g) {
      for (std::int64_t j = begin; j < end; ++j) {
        const std::int64_t at = batch * to.stride(0) + g * to.stride(1) + j * to.stride(2);
        std::memset(static_cast<std::byte*>(to.data()) + at * size, 0, static_cast<std::size_t>(to.shape(3) * size));
      }
    }
  }

  // [blocks of a kv head][heads of a kv head].
  double* gate_parts(std::int64_t n, std::int64_t kv_head) {
    return gate_parts_.data() + (first_block_[static_cast<std::size_t>(n)] + kv_head * blocks_of(n)) * heads_per_kv_;
  }

  void store_sinks() const {
    for (std::int64_t h = 0; h < forward_.heads; ++h) {
      double sum = 0;
      for (std::int64_t n = 0; n < forward_.sequences.count; ++n) {
        const std::int64_t panels = panels_of<T>(forward_.sequences[n]);
        for (std::int64_t i = 0; i < panels; ++i) {
          sum += shared_.sink_parts[static_cast<std::size_t>(shared_.first_panel[static_cast<std::size_t>(n)] +
                                                             h * panels + i)];
        }
      }
      static_cast<T*>(problem_.dsink_logit.data())[h * problem_.dsink_logit.stride(0)] = static_cast<T>(sum);
    }
  }
  void store_gates() {
    const TensorView& dgates = problem_.dgates;
    std::vector<double>& sums = gate_sums_;
    for (std::int64_t n = 0; n < forward_.sequences.count; ++n) {
      for (std::int64_t h = 0; h < forward_.heads; ++h) {
        const double* parts = gate_parts(n, h / heads_per_kv_) + h % heads_per_kv_;
        double& sum = sums[static_cast<std::size_t>(n * forward_.heads + h)];
        for (std::int64_t b = 0; b < blocks_of(n); ++b) sum += parts[b * heads_per_kv_];
      }
    }
    for (std::int64_t n = 0; n < dgates.shape(0); ++n) {
      for (std::int64_t h = 0; h < forward_.heads; ++h) {
        static_cast<T*>(dgates.data())[n * dgates.stride(0) + h * dgates.stride(1)] =
            static_cast<T>(sums[static_cast<std::size_t>(n * forward_.heads + h)]);
      }
    }
  }

  Team& team_;
  const kernels::AttentionGradientProblem& problem_;
  const kernels::AttentionProblem& forward_;
  const std::int64_t heads_per_kv_;
  std::vector<KeyItem> items_;
  std::int64_t blocks_ = 0, most_blocks_ = 1;  // of all kv heads, and of one at most
  std::vector<std::int64_t> first_block_;      // [N] of those of its kv heads
  std::vector<double> gate_parts_;             // [blocks][heads of a kv head]
  std::int64_t grain_ = 1;
  int members_ = 1;
  GradientShared<T> shared_;
  std::vector<double> gate_sums_;  // [N,H]
  Tensor dq_memory_;
};

void attend_backward(Team& team, const std::shared_ptr<Allocator>& memory,
                     const kernels::AttentionGradientProblem& problem) {
  if (problem.forward.dtype == DType::f64) {
    Backward<double>(team, memory, problem).run();
  } else {
    Backward<float>(team, memory, problem).run();
  }
}

}  // namespace polyhead::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace polyhead::cpu {

HWY_EXPORT(attend_backward);
HWY_EXPORT(needs_forward);

void attend_backward(Team& team, const std::shared_ptr<Allocator>& memory,
                     const kernels::AttentionGradientProblem& given) {
  choose_target();
  kernels::AttentionGradientProblem problem = given;
  Tensor output, lse;
  if (!given.output.present() && HWY_DYNAMIC_DISPATCH(needs_forward)(given)) {
    const ConstTensorView& q = given.forward.q;
    output = Tensor::empty({q.shape(0), q.shape(1), q.shape(2), given.forward.value_dim}, given.forward.dtype, memory);
    lse = Tensor::empty({q.shape(0), q.shape(1), q.shape(2)},
                        given.forward.dtype == DType::f64 ? DType::f64 : DType::f32, memory);
    problem.forward.output = output;
    problem.forward.lse = lse;
    attend(team, problem.forward);
    problem.output = output;
    problem.lse = lse;
  }
  HWY_DYNAMIC_DISPATCH(attend_backward)(team, memory, problem);
}

}  // namespace polyhead::cpu
#endif
