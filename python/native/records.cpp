#include "native/records.h"

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <type_traits>

#include "polyhead/polyhead_c.h"

namespace polyhead::native {
namespace {

struct Member {
  const char* name;
  std::size_t offset, size, alignment;
  Ref (*type)();
};

// The members of a T, in order.
template <class T>
constexpr std::array<Member, 0> kMembers = {};

template <class T>
Ref dtype();

template <class T>
Ref type_of() {
  if constexpr (std::is_array_v<T>) {
    const std::string count = std::to_string(std::extent_v<T>);
    static_assert(std::is_same_v<std::remove_extent_t<T>, char>);
    return text(("S" + count).c_str());
  } else if constexpr (std::is_class_v<T>) {
    return dtype<T>();
  } else {
    const char kind = std::is_floating_point_v<T> ? 'f' : std::is_signed_v<T> ? 'i' : 'u';
    return text((kind + std::to_string(sizeof(T))).c_str());
  }
}

#define POLYHEAD_MEMBER(T, member)                                                                                \
  Member {                                                                                                        \
#member, offsetof(T, member), sizeof(T::member), alignof(decltype(T::member)), type_of < decltype(T::member)> \
  }

using Device = decltype(polyhead_tensor::device);
template <>
constexpr std::array kMembers<Device> = {POLYHEAD_MEMBER(Device, type), POLYHEAD_MEMBER(Device, index)};

using DType = polyhead_dtype;
template <>
constexpr std::array kMembers<DType> = {POLYHEAD_MEMBER(DType, code), POLYHEAD_MEMBER(DType, bits),
                                        POLYHEAD_MEMBER(DType, lanes)};

using Viewed = polyhead_tensor;
template <>
constexpr std::array kMembers<Viewed> = {POLYHEAD_MEMBER(Viewed, data),       POLYHEAD_MEMBER(Viewed, device),
                                         POLYHEAD_MEMBER(Viewed, rank),       POLYHEAD_MEMBER(Viewed, dtype),
                                         POLYHEAD_MEMBER(Viewed, shape),      POLYHEAD_MEMBER(Viewed, strides),
                                         POLYHEAD_MEMBER(Viewed, byte_offset)};

using Token = polyhead_token;
template <>
constexpr std::array kMembers<Token> = {POLYHEAD_MEMBER(Token, id), POLYHEAD_MEMBER(Token, begin),
                                        POLYHEAD_MEMBER(Token, end), POLYHEAD_MEMBER(Token, first_char),
                                        POLYHEAD_MEMBER(Token, last_char)};

using Message = polyhead_message;
template <>
constexpr std::array kMembers<Message> = {POLYHEAD_MEMBER(Message, role), POLYHEAD_MEMBER(Message, content),
                                          POLYHEAD_MEMBER(Message, content_size)};

using Info = polyhead_model_info;
template <>
constexpr std::array kMembers<Info> = {POLYHEAD_MEMBER(Info, size),           POLYHEAD_MEMBER(Info, is_classifier),
                                       POLYHEAD_MEMBER(Info, is_encoder),     POLYHEAD_MEMBER(Info, vocabulary),
                                       POLYHEAD_MEMBER(Info, context_length), POLYHEAD_MEMBER(Info, parameter_count),
                                       POLYHEAD_MEMBER(Info, head_count)};

using Sampling = polyhead_sampling;
template <>
constexpr std::array kMembers<Sampling> = {
    POLYHEAD_MEMBER(Sampling, size),           POLYHEAD_MEMBER(Sampling, temperature),
    POLYHEAD_MEMBER(Sampling, seed),           POLYHEAD_MEMBER(Sampling, top_k),
    POLYHEAD_MEMBER(Sampling, top_p),          POLYHEAD_MEMBER(Sampling, stop),
    POLYHEAD_MEMBER(Sampling, stop_count),     POLYHEAD_MEMBER(Sampling, stop_texts),
    POLYHEAD_MEMBER(Sampling, stop_text_count)};

using Addition = polyhead_addition;
template <>
constexpr std::array kMembers<Addition> = {POLYHEAD_MEMBER(Addition, size),  POLYHEAD_MEMBER(Addition, prompt),
                                           POLYHEAD_MEMBER(Addition, token), POLYHEAD_MEMBER(Addition, last),
                                           POLYHEAD_MEMBER(Addition, text),  POLYHEAD_MEMBER(Addition, text_size)};

using Examples = polyhead_examples;
template <>
constexpr std::array kMembers<Examples> = {POLYHEAD_MEMBER(Examples, size),      POLYHEAD_MEMBER(Examples, tokens),
                                           POLYHEAD_MEMBER(Examples, targets),   POLYHEAD_MEMBER(Examples, lengths),
                                           POLYHEAD_MEMBER(Examples, texts),     POLYHEAD_MEMBER(Examples, text_sizes),
                                           POLYHEAD_MEMBER(Examples, text_count)};

using Head = polyhead_head;
template <>
constexpr std::array kMembers<Head> = {POLYHEAD_MEMBER(Head, layer), POLYHEAD_MEMBER(Head, head)};

using Score = polyhead_score;
template <>
constexpr std::array kMembers<Score> = {POLYHEAD_MEMBER(Score, loss), POLYHEAD_MEMBER(Score, accuracy)};

using Surveyed = polyhead_surveyed_head;
template <>
constexpr std::array kMembers<Surveyed> = {POLYHEAD_MEMBER(Surveyed, id), POLYHEAD_MEMBER(Surveyed, role),
                                           POLYHEAD_MEMBER(Surveyed, role_score)};

using Patching = polyhead_patching;
template <>
constexpr std::array kMembers<Patching> = {POLYHEAD_MEMBER(Patching, size), POLYHEAD_MEMBER(Patching, answer),
                                           POLYHEAD_MEMBER(Patching, instead), POLYHEAD_MEMBER(Patching, clean),
                                           POLYHEAD_MEMBER(Patching, corrupted)};

using Patched = polyhead_patched_head;
template <>
constexpr std::array kMembers<Patched> = {POLYHEAD_MEMBER(Patched, id), POLYHEAD_MEMBER(Patched, difference),
                                          POLYHEAD_MEMBER(Patched, restored)};

using Estimate = polyhead_estimate;
template <>
constexpr std::array kMembers<Estimate> = {POLYHEAD_MEMBER(Estimate, mean), POLYHEAD_MEMBER(Estimate, low),
                                           POLYHEAD_MEMBER(Estimate, high)};

using Importance = polyhead_head_importance;
template <>
constexpr std::array kMembers<Importance> = {
    POLYHEAD_MEMBER(Importance, id),         POLYHEAD_MEMBER(Importance, gradient),
    POLYHEAD_MEMBER(Importance, normalised), POLYHEAD_MEMBER(Importance, zero),
    POLYHEAD_MEMBER(Importance, mean),       POLYHEAD_MEMBER(Importance, accuracy_loss),
    POLYHEAD_MEMBER(Importance, logit)};

using Step = polyhead_prune_step;
template <>
constexpr std::array kMembers<Step> = {POLYHEAD_MEMBER(Step, removed), POLYHEAD_MEMBER(Step, without)};

// Whether each member begins where the one before it ends, but for its alignment, and nothing comes after the last. One
// that is left out where there would be a gap is found by contract_test, which compares all with the header.
template <class T>
consteval bool complete() {
  std::size_t end = 0;
  const auto aligned = [](std::size_t at, std::size_t to) { return (at + to - 1) / to * to; };
  for (const Member& member : kMembers<T>) {
    if (aligned(end, member.alignment) != member.offset) return false;
    end = member.offset + member.size;
  }
  return aligned(end, alignof(T)) == sizeof(T);
}

template <class T>
Ref dtype() {
  static_assert(complete<T>(), "a member of polyhead_c.h is in no record");
  const Ref names = own(PyList_New(0)), types = own(PyList_New(0)), offsets = own(PyList_New(0));
  const auto append = [](const Ref& list, const Ref& item) {
    if (PyList_Append(list.get(), item.get()) != 0) throw Raised{};
  };
  for (const Member& member : kMembers<T>) {
    append(names, text(member.name));
    append(types, member.type());
    append(offsets, own(PyLong_FromSize_t(member.offset)));
  }
  return own(Py_BuildValue("{s:O,s:O,s:O,s:n}", "names", names.get(), "formats", types.get(), "offsets", offsets.get(),
                           "itemsize", static_cast<Py_ssize_t>(sizeof(T))));
}

}  // namespace

Ref records() {
  Ref found = own(PyDict_New());
  const auto add = [&](const char* name, const Ref& type) {
    if (PyDict_SetItemString(found.get(), name, type.get()) != 0) throw Raised{};
  };
  add("tensor", dtype<Viewed>());
  add("token", dtype<Token>());
  add("message", dtype<Message>());
  add("model_info", dtype<Info>());
  add("sampling", dtype<Sampling>());
  add("addition", dtype<Addition>());
  add("examples", dtype<Examples>());
  add("surveyed_head", dtype<Surveyed>());
  add("patching", dtype<Patching>());
  add("patched_head", dtype<Patched>());
  add("head_importance", dtype<Importance>());
  add("prune_step", dtype<Step>());
  return found;
}

}  // namespace polyhead::native
