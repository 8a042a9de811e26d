// write_induction_model FOLDER: the model whose heads are known, and a tokenizer for it, for tests in Python.
#include <fstream>

#include "model/checkpoint.h"
#include "support/induction_model.h"

int main(int, char** arguments) {
  const std::filesystem::path folder = arguments[1];
  polyhead::model::save(*polyhead::InductionModel::make(), folder);
  std::ofstream(folder / "tokenizer.json") << polyhead::InductionModel::tokenizer_json();
}
