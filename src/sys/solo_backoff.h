// When the thread pool should stop sharing work for a while: pure arithmetic on times that it is
// told.
//
// Each stall (a barrier that waited for a worker without a core) buys a period of working alone: 10
// ms at first, doubling to 200 ms while stalls keep coming, and 10 ms again after a good stretch:
// sharing without a stall for as long as the period that went before.
#pragma once

#include <algorithm>

#include "base/clock.h"

namespace pacer::sys {

class BackoffClock {
 public:
  static constexpr Duration kFirst = std::chrono::milliseconds(10);
  static constexpr Duration kLongest = std::chrono::milliseconds(200);

  bool alone(TimePoint now) const { return now < alone_until_; }

  void stalled(TimePoint now) {
    const bool after_good_stretch = now - alone_until_ >= period_;
    period_ = period_ == Duration::zero() || after_good_stretch ? kFirst
                                                                : std::min(2 * period_, kLongest);
    alone_until_ = now + period_;
  }

 private:
  Duration period_{};  // the last one; zero before the first stall
  TimePoint alone_until_{};
};

}  // namespace pacer::sys
