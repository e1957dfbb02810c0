#include "text/bpe.h"

#include <algorithm>
#include <bit>
#include <queue>

#include "base/rng.h"  // mix64

namespace pacer::text {
namespace {

// Up to here scanning all pairs for each merge beats the queue. Words are nearly all shorter.
constexpr size_t kShortTokens = 32;

constexpr uint32_t kNoRank = UINT32_MAX;
constexpr uint32_t kNone = UINT32_MAX;  // no neighbour

}  // namespace

MergeTable::MergeTable(size_t merge_count) : slots_(std::bit_ceil(2 * merge_count + 2)) {}

size_t MergeTable::first_slot(uint64_t pair) const {
  return mix64(pair) & (slots_.size() - 1);
}

void MergeTable::add(TokenId left, TokenId right, Merge merge) {
  const uint64_t pair = uint64_t{left} << 32 | right;
  size_t slot = first_slot(pair);
  while (slots_[slot].pair != kEmpty && slots_[slot].pair != pair) {
    slot = (slot + 1) & (slots_.size() - 1);
  }
  if (slots_[slot].pair == kEmpty) slots_[slot] = {pair, merge};
}

const MergeTable::Merge* MergeTable::find(TokenId left, TokenId right) const {
  const uint64_t pair = uint64_t{left} << 32 | right;
  for (size_t slot = first_slot(pair);; slot = (slot + 1) & (slots_.size() - 1)) {
    if (slots_[slot].pair == pair) return &slots_[slot].merge;
    if (slots_[slot].pair == kEmpty) return nullptr;
  }
}

void merge_short(const MergeTable& merges, std::vector<TokenId>& tokens) {
  while (tokens.size() > 1) {
    uint32_t best_rank = kNoRank;
    size_t best = 0;
    TokenId result = 0;
    for (size_t i = 0; i + 1 < tokens.size(); ++i) {
      const MergeTable::Merge* merge = merges.find(tokens[i], tokens[i + 1]);
      if (merge && merge->rank < best_rank) {
        best_rank = merge->rank;
        best = i;
        result = merge->result;
      }
    }
    if (best_rank == kNoRank) return;
    tokens[best] = result;
    tokens.erase(tokens.begin() + static_cast<ptrdiff_t>(best) + 1);
  }
}

namespace {

// A linked list of tokens, and a queue of the pairs that could join. Joining makes pairs in the
// queue stale; they are recognised when they come out, by the tokens they were made of.
class LongMerge {
 public:
  LongMerge(const MergeTable& merges, const std::vector<TokenId>& tokens) : merges_(merges) {
    const auto count = static_cast<uint32_t>(tokens.size());
    nodes_.reserve(count);
    for (uint32_t i = 0; i < count; ++i) {
      nodes_.push_back({tokens[i], i == 0 ? kNone : i - 1, i + 1 == count ? kNone : i + 1, true});
    }
    for (uint32_t i = 0; i + 1 < count; ++i) offer(i);
  }

  void run(std::vector<TokenId>& out) {
    while (!queue_.empty()) {
      const Candidate candidate = queue_.top();
      queue_.pop();
      if (is_current(candidate)) join(candidate);
    }
    out.clear();
    for (uint32_t i = 0; i != kNone; i = nodes_[i].next) out.push_back(nodes_[i].token);
  }

 private:
  struct Node {
    TokenId token;
    uint32_t previous, next;
    bool alive;
  };
  struct Candidate {
    uint32_t rank, left;  // `left`: the node; its position, so the leftmost of equals comes first
    TokenId left_token, right_token, result;

    bool operator<(const Candidate& other) const {  // std::priority_queue gives the largest first
      return rank != other.rank ? rank > other.rank : left > other.left;
    }
  };

  void offer(uint32_t left) {
    const uint32_t right = nodes_[left].next;
    if (right == kNone) return;
    const TokenId left_token = nodes_[left].token;
    const TokenId right_token = nodes_[right].token;
    if (const MergeTable::Merge* merge = merges_.find(left_token, right_token)) {
      queue_.push({merge->rank, left, left_token, right_token, merge->result});
    }
  }

  bool is_current(const Candidate& candidate) const {
    const Node& left = nodes_[candidate.left];
    return left.alive && left.token == candidate.left_token && left.next != kNone &&
           nodes_[left.next].token == candidate.right_token;
  }

  void join(const Candidate& candidate) {
    Node& left = nodes_[candidate.left];
    Node& right = nodes_[left.next];
    right.alive = false;
    left.token = candidate.result;
    left.next = right.next;
    if (left.next != kNone) nodes_[left.next].previous = candidate.left;
    if (left.previous != kNone) offer(left.previous);
    offer(candidate.left);
  }

  const MergeTable& merges_;
  std::vector<Node> nodes_;
  std::priority_queue<Candidate> queue_;
};

}  // namespace

void merge_long(const MergeTable& merges, std::vector<TokenId>& tokens) {
  if (tokens.size() > 1) LongMerge(merges, tokens).run(tokens);
}

void Bpe::encode(std::string_view piece, std::vector<TokenId>& out,
                 std::vector<TokenId>& scratch) const {
  scratch.clear();
  for (const char c : piece) {
    if (const auto id = byte_tokens_[static_cast<uint8_t>(c)]) scratch.push_back(*id);
  }
  if (scratch.size() <= kShortTokens) {
    merge_short(merges_, scratch);
  } else {
    merge_long(merges_, scratch);
  }
  out.insert(out.end(), scratch.begin(), scratch.end());
}

}  // namespace pacer::text
