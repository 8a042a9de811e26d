#include "cuda/cublas_lt.h"

#include <dlfcn.h>

#include <algorithm>

namespace polyhead::cuda {
namespace {

// From cublasLt.h and cublas_api.h, version 13.
enum : int { kOpN = 0, kOpT = 1, kCompute32F = 68, kComputeTf32 = 77 };
enum : int { kDescTransA = 3, kDescTransB = 4, kDescEpilogue = 7, kDescBiasPointer = 8 };
enum : int { kDescAuxPointer = 11, kDescAuxLeading = 12 };
enum : int { kAlgorithmTile = 1, kAlgorithmSplitK = 2, kTile128x128 = 20 };
enum : int { kPreferWorkspace = 1, kPreferAlignmentA = 5 };  // B, C and D follow A
enum : int { kReal32F = 0, kReal16F = 2, kReal16BF = 14 };
constexpr std::uint32_t kEpilogueNone = 1, kEpilogueBias = 4, kEpilogueGeluAux = 160;

struct Algorithm {
  std::uint64_t data[8];
};
struct Heuristic {
  Algorithm algorithm;
  std::size_t workspace_bytes;
  int state;
  float waves;
  int reserved[4];
};

int type_of(DType dtype) { return dtype == DType::f16 ? kReal16F : dtype == DType::bf16 ? kReal16BF : kReal32F; }

// The largest power of two, up to 16, that all the addresses are multiples of.
int alignment_of(std::initializer_list<const void*> pointers) {
  std::uintptr_t bits = 16;
  for (const void* pointer : pointers) bits |= reinterpret_cast<std::uintptr_t>(pointer);
  return static_cast<int>(bits & (~bits + 1));
}

// The library is column-major: it takes a row-major matrix for its transpose.
struct Operand {
  bool transposed;  // compared with how the library reads it
  std::int64_t leading;
};
Operand operand_of(const ConstTensorView& matrix) {
  const bool transposed = matrix.stride(1) != 1;
  const std::int64_t leading = matrix.stride(transposed ? 1 : 0), least = matrix.shape(transposed ? 0 : 1);
  return {transposed, std::max(leading, least)};
}

}  // namespace

struct CublasLt::Functions {
  int (*create)(void**);
  int (*destroy)(void*);
  int (*desc_create)(void**, int compute, int scale);
  int (*desc_destroy)(void*);
  int (*desc_set)(void*, int attribute, const void*, std::size_t);
  int (*layout_create)(void**, int type, std::uint64_t rows, std::uint64_t columns, std::int64_t leading);
  int (*layout_destroy)(void*);
  int (*preference_create)(void**);
  int (*preference_destroy)(void*);
  int (*preference_set)(void*, int attribute, const void*, std::size_t);
  int (*heuristic)(void*, void* desc, void* a, void* b, void* c, void* d, void* preference, int wanted, Heuristic*,
                   int* found);
  int (*algorithm_get)(const Algorithm*, int attribute, void*, std::size_t bytes, std::size_t* written);
  int (*matmul)(void*, void* desc, const void* alpha, const void* a, void* a_layout, const void* b, void* b_layout,
                const void* beta, const void* c, void* c_layout, void* d, void* d_layout, const Algorithm*,
                void* workspace, std::size_t, cudaStream_t);
  void* library = nullptr;

  int attribute_of(const Algorithm& algorithm, int attribute) const {
    int value = -1;
    std::size_t written = 0;
    return algorithm_get(&algorithm, attribute, &value, sizeof value, &written) == 0 ? value : -1;
  }
  ~Functions() {
    if (library != nullptr) dlclose(library);
  }
};

struct CublasLt::Plan {
  const Functions& functions;
  void *desc = nullptr, *a = nullptr, *b = nullptr, *c = nullptr;
  Algorithm algorithm{};
  bool usable = false;

  explicit Plan(const Functions& f) : functions(f) {}
  ~Plan() {
    functions.desc_destroy(desc);
    for (void* layout : {a, b, c}) functions.layout_destroy(layout);
  }
};

std::unique_ptr<CublasLt> CublasLt::load() {
  auto f = std::make_unique<Functions>();
  for (const char* name : {"libcublasLt.so.13", "libcublasLt.so.12"}) {
    if (f->library == nullptr) f->library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  }
  if (f->library == nullptr) return nullptr;
  bool all = true;
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(f->library, name));
    all = all && function != nullptr;
  };
  find(f->create, "cublasLtCreate");
  find(f->destroy, "cublasLtDestroy");
  find(f->desc_create, "cublasLtMatmulDescCreate");
  find(f->desc_destroy, "cublasLtMatmulDescDestroy");
  find(f->desc_set, "cublasLtMatmulDescSetAttribute");
  find(f->layout_create, "cublasLtMatrixLayoutCreate");
  find(f->layout_destroy, "cublasLtMatrixLayoutDestroy");
  find(f->preference_create, "cublasLtMatmulPreferenceCreate");
  find(f->preference_destroy, "cublasLtMatmulPreferenceDestroy");
  find(f->preference_set, "cublasLtMatmulPreferenceSetAttribute");
  find(f->heuristic, "cublasLtMatmulAlgoGetHeuristic");
  find(f->algorithm_get, "cublasLtMatmulAlgoConfigGetAttribute");
  find(f->matmul, "cublasLtMatmul");
  if (!all) return nullptr;
  auto loaded = std::unique_ptr<CublasLt>(new CublasLt(std::move(f)));
  return loaded->handle_ == nullptr ? nullptr : std::move(loaded);
}

CublasLt::CublasLt(std::unique_ptr<Functions> functions) : functions_(std::move(functions)) {
  if (functions_->create(&handle_) != 0) handle_ = nullptr;
}

CublasLt::~CublasLt() {
  plans_.clear();
  if (handle_ != nullptr) functions_->destroy(handle_);
}

const CublasLt::Plan* CublasLt::plan_of(const Key& key) {
  if (const auto known = plans_.find(key); known != plans_.end()) return known->second.get();
  const auto [compute, type, c_type, M, N, K, a_transposed, b_transposed, a_leading, b_leading, c_leading, epilogue,
              alignment] = key;
  const Functions& f = *functions_;
  auto plan = std::make_unique<Plan>(f);
  // The library computes C^T [N,M] = B^T A^T, so its first operand is our second.
  const int first = b_transposed ? kOpT : kOpN, second = a_transposed ? kOpT : kOpN;
  bool made = f.desc_create(&plan->desc, compute, kReal32F) == 0 &&
              f.desc_set(plan->desc, kDescTransA, &first, sizeof first) == 0 &&
              f.desc_set(plan->desc, kDescTransB, &second, sizeof second) == 0 &&
              f.layout_create(&plan->b, type, b_transposed ? K : N, b_transposed ? N : K, b_leading) == 0 &&
              f.layout_create(&plan->a, type, a_transposed ? M : K, a_transposed ? K : M, a_leading) == 0 &&
              f.layout_create(&plan->c, c_type, N, M, c_leading) == 0;
  made = made && f.desc_set(plan->desc, kDescEpilogue, &epilogue, sizeof epilogue) == 0;
  if (epilogue >= kEpilogueGeluAux) {
    made = made && f.desc_set(plan->desc, kDescAuxLeading, &c_leading, sizeof c_leading) == 0;
  }
  void* preference = nullptr;
  made = made && f.preference_create(&preference) == 0;
  if (made) {
    const std::uint64_t bytes = kWorkspaceBytes;
    f.preference_set(preference, kPreferWorkspace, &bytes, sizeof bytes);
    const auto aligned = static_cast<std::uint32_t>(alignment);
    for (int operand = 0; operand < 4; ++operand) {
      f.preference_set(preference, kPreferAlignmentA + operand, &aligned, sizeof aligned);
    }
    constexpr int kWanted = 8;
    Heuristic choices[kWanted] = {};
    int found = 0;
    plan->usable = f.heuristic(handle_, plan->desc, plan->b, plan->a, plan->c, plan->c, preference, kWanted, choices,
                               &found) == 0 &&
                   found > 0 && choices[0].state == 0;
    plan->algorithm = choices[0].algorithm;
    // With few K the library's first choice has tiles that are too large: measured by hand on an H200, a product of
    // [16384,384] and [384,1536] took 35.4 µs with it and 29.9 with tiles of 128 x 128.
    if (K <= 512 && M * N >= std::int64_t{1} << 24) {
      const Heuristic *const begin = choices, *const end = choices + found;
      const auto* const small = std::find_if(begin, end, [&](const Heuristic& choice) {
        return choice.state == 0 && f.attribute_of(choice.algorithm, kAlgorithmTile) == kTile128x128 &&
               f.attribute_of(choice.algorithm, kAlgorithmSplitK) == 1;
      });
      if (small != end) plan->algorithm = small->algorithm;
    }
    f.preference_destroy(preference);
  }
  return plans_.emplace(key, std::move(plan)).first->second.get();
}

bool CublasLt::multiply(cudaStream_t stream, bool may_round, const ConstTensorView& a, const ConstTensorView& b,
                        const Extras& extras, const TensorView& c, void* workspace) {
  const auto [bias, plus, before_gelu] = extras;
  const Operand left = operand_of(a), right = operand_of(b);
  const std::int64_t c_leading = std::max(c.stride(0), c.shape(1));
  const std::uint32_t wanted = (bias != nullptr ? kEpilogueBias : 0) + (before_gelu != nullptr ? kEpilogueGeluAux : 0);
  const std::uint32_t epilogue = wanted == 0 ? kEpilogueNone : wanted;
  const Key key{may_round && a.dtype() == DType::f32 ? kComputeTf32 : kCompute32F,
                type_of(a.dtype()),
                type_of(c.dtype()),
                c.shape(0),
                c.shape(1),
                a.shape(1),
                left.transposed,
                right.transposed,
                left.leading,
                right.leading,
                c_leading,
                epilogue,
                alignment_of({a.data(), b.data(), c.data(), bias, plus, before_gelu})};
  const Plan* plan = plan_of(key);
  if (!plan->usable) return false;
  const Functions& f = *functions_;
  if (bias != nullptr && f.desc_set(plan->desc, kDescBiasPointer, &bias, sizeof bias) != 0) return false;
  if (before_gelu != nullptr && f.desc_set(plan->desc, kDescAuxPointer, &before_gelu, sizeof before_gelu) != 0) {
    return false;
  }
  const float one = 1, beta = plus != nullptr ? 1 : 0;  // the library's word for the factor of what is added
  return f.matmul(handle_, plan->desc, &one, b.data(), plan->b, a.data(), plan->a, &beta,
                  plus != nullptr ? plus : c.data(), plan->c, c.data(), plan->c, &plan->algorithm, workspace,
                  kWorkspaceBytes, stream) == 0;
}

}  // namespace polyhead::cuda
