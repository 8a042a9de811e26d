// serve_models FOLDER: writes the models that live_page_test.py opens.
#include "serve/models.h"

int main(int /*argc*/, char** argv) {
  const std::filesystem::path folder = argv[1];
  polyhead::serve::save_language_model(folder / "gpt");
  polyhead::serve::save_other_language_model(folder / "other-gpt");
  polyhead::serve::save_pruned_language_model(folder / "pruned-gpt");
  polyhead::serve::save_tall_language_model(folder / "tall");
  polyhead::serve::save_encoder(folder / "encoder");
  polyhead::serve::save_classifier(folder / "classifier");
}
