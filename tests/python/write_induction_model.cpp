// write_induction_model FOLDER: the model whose heads are known, for tests in Python.
#include "model/checkpoint.h"
#include "support/induction_model.h"

int main(int, char** arguments) { polyhead::model::save(*polyhead::InductionModel::make(), arguments[1]); }
