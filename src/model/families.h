// Every family of models that polyhead runs: the one list, which messages, help and docs/heads.md go by. A new family
// is a file beside gpt2.cpp, declared and listed here.
#pragma once

#include <span>
#include <string>

#include "model/family.h"

namespace polyhead::model {

Family gpt2_family();
Family llama_family();
Family mistral_family();
Family qwen2_family();
Family qwen3_family();
Family gemma2_family();
Family gemma3_family();
Family gpt_neox_family();
Family bert_family();
Family roberta_family();
Family distilbert_family();
Family gpt2_gguf_family();
Family llama_gguf_family();
Family qwen2_gguf_family();
Family qwen3_gguf_family();
Family gemma2_gguf_family();
Family gemma3_gguf_family();
Family gpt_neox_gguf_family();
Family bert_gguf_family();

using FamilyTable = Family (*)();

// By "model_type" of config.json: those that continue a text, and encoders.
inline constexpr FamilyTable kDecoders[] = {gpt2_family,  llama_family,  mistral_family, qwen2_family,
                                            qwen3_family, gemma2_family, gemma3_family,  gpt_neox_family};
inline constexpr FamilyTable kEncoders[] = {bert_family, roberta_family, distilbert_family};
// By "general.architecture" of GGUF.
inline constexpr FamilyTable kGgufFamilies[] = {gpt2_gguf_family,     llama_gguf_family,  qwen2_gguf_family,
                                                qwen3_gguf_family,    gemma2_gguf_family, gemma3_gguf_family,
                                                gpt_neox_gguf_family, bert_gguf_family};

// "bert, roberta or distilbert", if `last` is " or ".
std::string names_of(std::span<const FamilyTable> families, const std::string& last);

}  // namespace polyhead::model
