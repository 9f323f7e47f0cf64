// The MTP layer in a scheduler's step. For position i it takes the final hidden state of i and the
// token at i + 1, so it follows the pass and the sampling; what it draws for i + 2 is verified by
// the next pass. Nothing it computes changes a token, so its failure ends the drafting only.
#include <algorithm>
#include <new>

#include "base/error.h"
#include "engine/scheduler.h"

namespace fathom {
namespace {

// Rows of one sweep through the layer: a longer prompt goes in pieces, so that its memory stays
// below what the pass itself took.
constexpr size_t kMtpRows = 2048;

}  // namespace

std::vector<SequenceScheduler::MtpRow> SequenceScheduler::mtp_rows() {
  std::vector<MtpRow> rows;
  for (const auto& sequence : running_) {
    if (!sequence->speculates() || sequence->finished() || sequence->planned_rows() == 0) continue;
    make_room([&] { return sequence->cache().shared_pages(); });
    try {
      sequence->cache().prepare_again(sequence->mtp_first());
    } catch (const Error&) {
      sequence->stop_speculating();  // no pages are left to copy shared ones
      continue;
    }
    for (int64_t position = sequence->mtp_first(); position < sequence->mtp_end(); ++position) {
      rows.push_back({sequence.get(), position});
    }
  }
  return rows;
}

void SequenceScheduler::draft(const CancelToken* stop) {
  const auto stop_all = [this] {
    for (const auto& sequence : running_) sequence->stop_speculating();
  };
  if (!parts_.judge->fills()) return stop_all();
  const std::vector<MtpRow> rows = mtp_rows();
  try {
    for (size_t first = 0; first < rows.size(); first += kMtpRows) {
      draft_rows(std::span(rows).subspan(first, std::min(kMtpRows, rows.size() - first)), stop);
    }
    for (const MtpRow& row : rows) row.sequence->mtp_done();
  } catch (const Error& error) {
    stop_all();
    if (error.kind() != ErrorKind::cancelled) {
      parts_.judge->give_up(fmt::format("the MTP layer failed: {}", error.what()));
    }
  } catch (const std::bad_alloc&) {
    stop_all();
  }
}

void SequenceScheduler::draft_rows(std::span<const MtpRow> rows, const CancelToken* stop) {
  const ModelShape& config = parts_.model->shape();
  Sweep sweep;
  Matrix hidden(static_cast<int64_t>(rows.size()), config.hidden_size);
  int64_t drafts = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto [sequence, position] = rows[i];
    std::copy_n(sequence->hidden_at(position), config.hidden_size,
                hidden.row(static_cast<int64_t>(i)));
    const bool draft = sequence->wants_draft(position);
    drafts += draft;
    sweep.rows.push_back(
        {sequence->token_at(position + 1), position, position, &sequence->cache(), draft});
  }
  parts_.model->begin_mtp(sweep, hidden);
  parts_.model->advance(sweep, stop);
  if (drafts == 0) return;
  Matrix logits(drafts, config.vocab_size);
  parts_.model->mtp_head(sweep, logits);
  int64_t at = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!sweep.rows[i].wants_logits) continue;
    rows[i].sequence->set_draft(logits.view().row_span(at++));
  }
}

}  // namespace fathom
