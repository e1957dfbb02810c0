// The bytes of request bodies that the server holds at one time, over all connections.
//
// A share grows with what was really received, not with what a peer announces: announcing costs it
// nothing. It is given back when the handler has read it, and at the latest when the request ends,
// whichever way it does.
#pragma once

#include <atomic>
#include <cstddef>

namespace pacer::http {

// Thread-safe.
class BodyBudget {
 public:
  void set_limit(size_t bytes) { limit_ = bytes; }
  size_t limit() const { return limit_; }
  size_t used() const { return used_.load(std::memory_order_relaxed); }
  size_t left() const {
    const size_t now = used();
    return now < limit_ ? limit_ - now : 0;
  }

  // All or nothing.
  bool try_take(size_t bytes) {
    size_t now = used();
    do {
      if (bytes > limit_ || now > limit_ - bytes) return false;
    } while (!used_.compare_exchange_weak(now, now + bytes, std::memory_order_relaxed));
    return true;
  }
  void give_back(size_t bytes) { used_.fetch_sub(bytes, std::memory_order_relaxed); }

 private:
  size_t limit_ = 0;  // set before the first request
  std::atomic<size_t> used_ = 0;
};

// What one request holds.
class BodyShare {
 public:
  explicit BodyShare(BodyBudget& budget) : budget_(budget) {}
  ~BodyShare() { release(); }
  BodyShare(const BodyShare&) = delete;
  BodyShare& operator=(const BodyShare&) = delete;

  // False: there is no room for it, and the share stays as it was.
  bool grow_to(size_t bytes) {
    if (bytes <= bytes_) return true;
    if (!budget_.try_take(bytes - bytes_)) return false;
    bytes_ = bytes;
    return true;
  }
  void release() {
    budget_.give_back(bytes_);
    bytes_ = 0;
  }

 private:
  BodyBudget& budget_;
  size_t bytes_ = 0;
};

}  // namespace pacer::http
