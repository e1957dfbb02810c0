// Joins neighbours in a row of symbols: again and again the best pair, of equals the leftmost,
// until no pair joins.
//
// What symbols are and which pairs join is the caller's: bpe.h (tokens, and the model's list of
// merges) and sentence_piece.h (stretches of text, and the scores of tokens). `find(left, right)`
// returns a Joined. Two ways with the same result; merge_symbols() chooses.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

namespace pacer::text {

inline constexpr uint32_t kNoRank = UINT32_MAX;  // the pair does not join

template <class Symbol>
struct Joined {
  uint32_t rank = kNoRank;  // the smallest goes first
  Symbol symbol{};          // what the pair becomes
};

// Up to here scanning all pairs for each merge beats the queue. Words are nearly all shorter.
inline constexpr size_t kShortSymbols = 32;

// O(n^2) steps, but each pair is looked up once; no allocation. At most kShortSymbols symbols.
template <class Symbol, class Find>
void merge_short(std::vector<Symbol>& symbols, const Find& find) {
  size_t size = symbols.size();
  if (size < 2) return;
  std::array<Joined<Symbol>, kShortSymbols> pairs;  // [i]: of symbols i and i + 1
  for (size_t i = 0; i + 1 < size; ++i) pairs[i] = find(symbols[i], symbols[i + 1]);
  while (size > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < size; ++i) {
      if (pairs[i].rank < pairs[best].rank) best = i;
    }
    if (pairs[best].rank == kNoRank) break;
    symbols[best] = pairs[best].symbol;
    std::copy(symbols.begin() + static_cast<ptrdiff_t>(best) + 2,
              symbols.begin() + static_cast<ptrdiff_t>(size),
              symbols.begin() + static_cast<ptrdiff_t>(best) + 1);
    std::copy(pairs.begin() + best + 1, pairs.begin() + (size - 1), pairs.begin() + best);
    --size;
    if (best > 0) pairs[best - 1] = find(symbols[best - 1], symbols[best]);
    if (best + 1 < size) pairs[best] = find(symbols[best], symbols[best + 1]);
  }
  symbols.resize(size);
}

// A linked list of symbols, and a queue of the pairs that could join: O(n log n).
template <class Symbol, class Find>
class LongMerge {
 public:
  LongMerge(const std::vector<Symbol>& symbols, const Find& find) : find_(find) {
    const auto count = static_cast<uint32_t>(symbols.size());
    nodes_.reserve(count);
    std::vector<uint64_t> queue;
    queue.reserve(count);
    for (uint32_t i = 0; i < count; ++i) {
      nodes_.push_back({symbols[i], i - 1, i + 1 == count ? kNone : i + 1, {}});
      if (i > 0 && look_up(i - 1)) queue.push_back(entry_of(i - 1));
    }
    queue_ = Queue(std::greater<>(), std::move(queue));
  }

  void run(std::vector<Symbol>& out) {
    while (!queue_.empty()) {
      const uint64_t entry = queue_.top();
      queue_.pop();
      const auto left = static_cast<uint32_t>(entry);
      // Joining makes entries of the queue stale. They have another rank than what is there now;
      // if it is the same after all, this pair would be next anyway.
      if (nodes_[left].pair.rank == entry >> 32) join(left);
    }
    out.clear();
    for (uint32_t i = 0; i != kNone; i = nodes_[i].next) out.push_back(nodes_[i].symbol);
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;  // no neighbour

  struct Node {
    Symbol symbol;
    uint32_t previous, next;
    Joined<Symbol> pair;  // with the next; no rank once this node is joined to the one before
  };
  using Queue = std::priority_queue<uint64_t, std::vector<uint64_t>, std::greater<>>;

  uint64_t entry_of(uint32_t left) const { return uint64_t{nodes_[left].pair.rank} << 32 | left; }

  bool look_up(uint32_t left) {
    Node& node = nodes_[left];
    node.pair =
        node.next == kNone ? Joined<Symbol>{} : find_(node.symbol, nodes_[node.next].symbol);
    return node.pair.rank != kNoRank;
  }

  void join(uint32_t at) {
    Node& left = nodes_[at];
    Node& right = nodes_[left.next];
    right.pair = {};
    left.symbol = left.pair.symbol;
    left.next = right.next;
    if (left.next != kNone) nodes_[left.next].previous = at;
    if (left.previous != kNone && look_up(left.previous)) queue_.push(entry_of(left.previous));
    if (look_up(at)) queue_.push(entry_of(at));
  }

  const Find& find_;
  std::vector<Node> nodes_;
  Queue queue_;
};

template <class Symbol, class Find>
void merge_long(std::vector<Symbol>& symbols, const Find& find) {
  if (symbols.size() > 1) LongMerge<Symbol, Find>(symbols, find).run(symbols);
}

template <class Symbol, class Find>
void merge_symbols(std::vector<Symbol>& symbols, const Find& find) {
  if (symbols.size() <= kShortSymbols) {
    merge_short(symbols, find);
  } else {
    merge_long(symbols, find);
  }
}

}  // namespace pacer::text
