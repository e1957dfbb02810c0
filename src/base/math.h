// Integer helpers used everywhere.
#pragma once

namespace pacer {

template <class T>
constexpr T div_ceil(T value, T divisor) {
  return (value + divisor - 1) / divisor;
}

template <class T>
constexpr T round_up(T value, T multiple) {
  return div_ceil(value, multiple) * multiple;
}

}  // namespace pacer
