#include "capi/model.h"

#include <algorithm>
#include <cstring>

#include "capi/attention.h"
#include "capi/guard.h"
#include "capi/handles.h"
#include "capi/tensors.h"

namespace polyhead::capi {

std::vector<HeadId> heads_of(const polyhead_head* heads, std::size_t count, std::string_view op,
                             std::string_view name) {
  std::vector<HeadId> ids;
  if (count == 0) return ids;
  const polyhead_head* const first = &required(heads, op, name);
  for (const polyhead_head* head = first; head != first + count; ++head) {
    if (head->layer < 0 || head->head < 0) {
      throw Error(ErrorCode::value, op,
                  std::string(name) + ": expected layers and heads from 0 on, found " + std::to_string(head->layer) +
                      "." + std::to_string(head->head));
    }
    ids.push_back({static_cast<std::size_t>(head->layer), head->head});
  }
  return ids;
}

std::string text_of(const char* text, std::size_t size, std::string_view op, std::string_view name) {
  return size == 0 ? std::string() : std::string(&required(text, op, name), size);
}

std::vector<std::string> texts_of(const char* const* texts, const std::size_t* sizes, std::size_t count,
                                  std::string_view op) {
  std::vector<std::string> given;
  for (std::size_t n = 0; n < count; ++n) {
    const char* const text = (&required(texts, op, "texts"))[n];
    given.push_back(sizes == nullptr ? &required(text, op, "texts") : text_of(text, sizes[n], op, "texts"));
  }
  return given;
}

std::vector<Message> messages_of(const polyhead_message* messages, std::size_t count) {
  std::vector<Message> result;
  for (std::size_t n = 0; n < count; ++n) {
    const polyhead_message& message = (&required(messages, "chat", "messages"))[n];
    result.push_back(
        {&required(message.role, "chat", "role"), text_of(message.content, message.content_size, "chat", "content")});
  }
  return result;
}

polyhead_head head_in_c(const HeadId& id) { return {static_cast<std::int64_t>(id.layer), id.head}; }

}  // namespace polyhead::capi

using namespace polyhead;
using namespace polyhead::capi;

namespace {

constexpr std::string_view kOp = "model";

const Model& model_in(const polyhead_model* model) { return required(model, kOp, "model").model; }

Sampling sampling_of(const polyhead_sampling* sampling) {
  const polyhead_sampling given = versioned(sampling, kOp, "sampling");
  Sampling drawn{.temperature = given.temperature,
                 .seed = given.seed,
                 .top_k = given.top_k,
                 .top_p = given.top_p == 0 ? 1 : given.top_p,
                 .stop = chosen(given.stop, given.stop_count, kOp, "stop")};
  for (std::size_t n = 0; n < given.stop_text_count; ++n) {
    drawn.stop_texts.emplace_back(&required((&required(given.stop_texts, kOp, "stop_texts"))[n], kOp, "stop_texts"));
  }
  return drawn;
}

std::vector<std::vector<std::int32_t>> prompts_of(const std::int32_t* prompts, const std::int64_t* lengths,
                                                  std::size_t count) {
  std::vector<std::vector<std::int32_t>> result;
  for (std::size_t p = 0; p < count; ++p) {
    const std::int64_t length = (&required(lengths, kOp, "lengths"))[p];
    if (length < 0) {
      throw Error(ErrorCode::value, kOp,
                  "expected lengths from 0 on, found " + std::to_string(length) + " for prompt " + std::to_string(p));
    }
    if (length > 0) required(prompts, kOp, "prompts");
    result.emplace_back(prompts, prompts + length);
    prompts += length;
  }
  return result;
}

polyhead_addition addition_in_c(const Addition& addition) {
  return {.size = sizeof(polyhead_addition),
          .prompt = addition.prompt,
          .token = addition.token.value_or(-1),
          .last = addition.last,
          .text = addition.text.c_str(),
          .text_size = addition.text.size()};
}

OnAddition teller(polyhead_on_addition on_addition, void* user) {
  return [told = &required(on_addition, kOp, "on_addition"), user](const Addition& addition) {
    const polyhead_addition given = addition_in_c(addition);
    return told(&given, user) != 0;
  };
}

ModelOptions options_of(const polyhead_tensor* lengths, const polyhead_head* knocked_out, size_t count) {
  return {.lengths = view_of(lengths, kOp, "lengths"), .knocked_out = heads_of(knocked_out, count, kOp, "knocked_out")};
}

// A single tensor by its name.
void give(polyhead_results** results, const char* name, Tensor made) {
  polyhead_results*& into = required(results, kOp, "results");
  auto named = std::make_unique<polyhead_results>();
  named->name(name, named->kept.emplace<Tensor>(std::move(made)));
  into = named.release();
}

// One tensor of each layer, by its number.
void give_layers(polyhead_results** results, std::vector<Tensor> made) {
  polyhead_results*& into = required(results, kOp, "results");
  auto named = std::make_unique<polyhead_results>();
  const auto& kept = named->kept.emplace<std::vector<Tensor>>(std::move(made));
  for (std::size_t layer = 0; layer < kept.size(); ++layer) named->name(std::to_string(layer), kept[layer]);
  into = named.release();
}

}  // namespace

polyhead_status polyhead_model_load(polyhead_context* context, const char* path, polyhead_model** model) {
  return guarded([&] {
    const Context& on = required(context, kOp, "context").context;
    required(model, kOp, "model") = new polyhead_model{Model::load(&required(path, kOp, "path"), on)};
  });
}

polyhead_status polyhead_model_save(const polyhead_model* model, const char* folder) {
  return guarded([&] { model_in(model).save(&required(folder, kOp, "folder")); });
}

void polyhead_model_free(polyhead_model* model) { delete model; }

polyhead_status polyhead_model_describe(const polyhead_model* model, polyhead_model_info* info) {
  return guarded([&] {
    const Model& of = model_in(model);
    polyhead_model_info& into = required(info, kOp, "info");
    const std::size_t size = versioned(&into, kOp, "info").size;
    const polyhead_model_info filled = {.size = size,
                                        .is_classifier = of.is_classifier(),
                                        .is_encoder = of.is_encoder(),
                                        .vocabulary = of.vocabulary(),
                                        .context_length = of.context_length(),
                                        .parameter_count = of.parameter_count(),
                                        .head_count = static_cast<std::int64_t>(of.heads().size())};
    std::memcpy(&into, &filled, std::min(size, sizeof filled));
  });
}

polyhead_status polyhead_model_heads(const polyhead_model* model, polyhead_head* heads) {
  return guarded([&] {
    polyhead_head* into = &required(heads, kOp, "heads");
    for (const HeadId& id : model_in(model).heads()) *into++ = head_in_c(id);
  });
}

polyhead_status polyhead_model_forward(polyhead_context* context, const polyhead_model* model,
                                       const polyhead_tensor* tokens, const polyhead_tensor* lengths,
                                       const polyhead_head* knocked_out, size_t knocked_out_count,
                                       polyhead_results** results) {
  return guarded([&] {
    give(results, "logits",
         model_in(model).forward(required(context, kOp, "context").context, view_of(tokens, kOp, "tokens"),
                                 options_of(lengths, knocked_out, knocked_out_count)));
  });
}

polyhead_status polyhead_model_embed(polyhead_context* context, const polyhead_model* model,
                                     const polyhead_tensor* tokens, const polyhead_tensor* lengths,
                                     const polyhead_head* knocked_out, size_t knocked_out_count,
                                     polyhead_results** results) {
  return guarded([&] {
    give(results, "embeddings",
         model_in(model).embed(required(context, kOp, "context").context, view_of(tokens, kOp, "tokens"),
                               options_of(lengths, knocked_out, knocked_out_count)));
  });
}

polyhead_status polyhead_model_weights(polyhead_context* context, const polyhead_model* model,
                                       const polyhead_tensor* tokens, const polyhead_tensor* lengths,
                                       const polyhead_head* knocked_out, size_t knocked_out_count,
                                       polyhead_results** results) {
  return guarded([&] {
    give_layers(results,
                model_in(model).weights(required(context, kOp, "context").context, view_of(tokens, kOp, "tokens"),
                                        options_of(lengths, knocked_out, knocked_out_count)));
  });
}

polyhead_status polyhead_forward_texts(polyhead_context* context, const polyhead_model* model, const char* const* texts,
                                       const size_t* text_sizes, size_t text_count, const polyhead_head* knocked_out,
                                       size_t knocked_out_count, polyhead_results** results) {
  return guarded([&] {
    give(
        results, "logits",
        model_in(model).forward(required(context, kOp, "context").context, texts_of(texts, text_sizes, text_count, kOp),
                                heads_of(knocked_out, knocked_out_count, kOp, "knocked_out")));
  });
}

polyhead_status polyhead_embed_texts(polyhead_context* context, const polyhead_model* model, const char* const* texts,
                                     const size_t* text_sizes, size_t text_count, const polyhead_head* knocked_out,
                                     size_t knocked_out_count, polyhead_results** results) {
  return guarded([&] {
    give(results, "embeddings",
         model_in(model).embed(required(context, kOp, "context").context, texts_of(texts, text_sizes, text_count, kOp),
                               heads_of(knocked_out, knocked_out_count, kOp, "knocked_out")));
  });
}

polyhead_status polyhead_weights_of_texts(polyhead_context* context, const polyhead_model* model,
                                          const char* const* texts, const size_t* text_sizes, size_t text_count,
                                          const polyhead_head* knocked_out, size_t knocked_out_count,
                                          polyhead_results** results) {
  return guarded([&] {
    give_layers(results, model_in(model).weights(required(context, kOp, "context").context,
                                                 texts_of(texts, text_sizes, text_count, kOp),
                                                 heads_of(knocked_out, knocked_out_count, kOp, "knocked_out")));
  });
}

polyhead_status polyhead_model_generate(polyhead_context* context, const polyhead_model* model, const int32_t* prompts,
                                        const int64_t* lengths, size_t prompt_count, int64_t count,
                                        const polyhead_sampling* sampling, int32_t* tokens) {
  return guarded([&] {
    std::int32_t* into = &required(tokens, kOp, "tokens");
    for (const auto& sequence :
         model_in(model).generate(required(context, kOp, "context").context, prompts_of(prompts, lengths, prompt_count),
                                  count, sampling_of(sampling))) {
      into = std::fill_n(std::copy(sequence.begin(), sequence.end(), into), count - std::ssize(sequence), -1);
    }
  });
}

polyhead_status polyhead_generation_create(polyhead_context* context, const polyhead_model* model,
                                           const int32_t* prompts, const int64_t* lengths, size_t prompt_count,
                                           int64_t count, const polyhead_sampling* sampling, int32_t text,
                                           polyhead_generation** generation) {
  return guarded([&] {
    required(generation, kOp, "generation") = new polyhead_generation{
        Generation(required(context, kOp, "context").context, model_in(model),
                   prompts_of(prompts, lengths, prompt_count), count, sampling_of(sampling), text != 0),
        {}};
  });
}

polyhead_status polyhead_generation_next(polyhead_generation* generation, polyhead_addition* additions,
                                         size_t addition_size, size_t* count) {
  return guarded([&] {
    polyhead_generation& going = required(generation, kOp, "generation");
    Room<polyhead_addition> into(additions, addition_size, kOp, "additions", "addition_size");
    std::size_t& made = required(count, kOp, "count");
    going.last = going.generation.next();
    for (const Addition& addition : going.last) into.add(addition_in_c(addition));
    made = going.last.size();
  });
}

void polyhead_generation_free(polyhead_generation* generation) { delete generation; }

polyhead_status polyhead_generate_text(polyhead_context* context, const polyhead_model* model, const char* prompt,
                                       size_t size, int64_t count, const polyhead_sampling* sampling,
                                       polyhead_on_addition on_addition, void* user) {
  return guarded([&] {
    model_in(model).generate_text(required(context, kOp, "context").context, {text_of(prompt, size, kOp, "prompt")},
                                  count, sampling_of(sampling), teller(on_addition, user));
  });
}

polyhead_status polyhead_generate_texts(polyhead_context* context, const polyhead_model* model,
                                        const char* const* prompts, const size_t* prompt_sizes, size_t prompt_count,
                                        int64_t count, const polyhead_sampling* sampling,
                                        polyhead_on_addition on_addition, void* user) {
  return guarded([&] {
    model_in(model).generate_text(required(context, kOp, "context").context,
                                  texts_of(prompts, prompt_sizes, prompt_count, kOp), count, sampling_of(sampling),
                                  teller(on_addition, user));
  });
}

polyhead_status polyhead_answer(polyhead_context* context, const polyhead_model* model,
                                const polyhead_message* messages, size_t message_count, int64_t count,
                                const polyhead_sampling* sampling, polyhead_on_addition on_addition, void* user) {
  return guarded([&] {
    model_in(model).answer(required(context, kOp, "context").context, messages_of(messages, message_count), count,
                           sampling_of(sampling), teller(on_addition, user));
  });
}
