// What is behind the public Model.
#pragma once

#include "engine/engine.h"
#include "engine/generate.h"
#include "engine/speculation.h"
#include "fathom/model.h"

namespace fathom {

struct Model::Impl {
  explicit Impl(const LoadOptions& options)
      : engine(options),
        judge(options.speculation, engine.info().has_mtp),
        parts(parts_of(engine, judge)) {}
  Engine engine;
  SpeculationJudge judge;
  ModelParts parts;
};

}  // namespace fathom
