#include "model/vocabulary_weights.h"

#include "checkpoint/expected_tensors.h"

namespace fathom {

WeightView load_head(WeightLoader& loader, const std::string& name,
                     const VocabularyChoice& choice) {
  return choice.int8_head ? loader.quantised_matrix(name) : loader.matrix(name);
}

Embedding load_embedding(WeightLoader& loader, const Checkpoint& checkpoint,
                         const std::string& name, const VocabularyChoice& choice) {
  if (choice.int8_embedding) return Embedding(loader.quantised_matrix(name));
  if (choice.embedding_on_disk) return Embedding(checkpoint, *checkpoint.find(name));
  return Embedding(loader.matrix(name));
}

VocabularyWeights load_vocabulary(WeightLoader& loader, const Checkpoint& checkpoint, bool tied,
                                  const VocabularyChoice& choice) {
  VocabularyWeights weights;
  const std::string embedding(names::kEmbedding);
  if (tied) {
    weights.lm_head = load_head(loader, embedding, choice);
    weights.embed_tokens = Embedding(weights.lm_head);
  } else {
    weights.lm_head = load_head(loader, std::string(names::kHead), choice);
    weights.embed_tokens = load_embedding(loader, checkpoint, embedding, choice);
  }
  return weights;
}

}  // namespace fathom
