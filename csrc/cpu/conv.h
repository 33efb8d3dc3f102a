// Convolution on the CPU: the geometry that its methods share. Of tensors in the usual order:
//
//   products   1 x 1 kernels without stride: a matrix product of each image as it lies (conv.cpp)
//   planes     products straight from a padded copy of each image (conv_planes.cpp): most others
//   columns    the places that each output sees are copied out first, as columns of a matrix
//              (conv_columns.cpp): small images, where planes would compute too many places in vain
//
// Where the channels of x, w and y lie last, the products are of pixels as they lie
// (conv_channels_last.cpp).
//
// There are always three spatial dimensions; missing ones have size 1 in front.
#pragma once

#include <array>
#include <cstdint>

#include "core/op.h"
#include "cpu/workspace.h"

namespace tapegrad::cpu {

using Triple = std::array<int64_t, 3>;

inline int64_t volume(const Triple& t) { return t[0] * t[1] * t[2]; }

// x (batch, groups * in_channels, in), w (groups * out_channels, in_channels, kernel) and
// y (batch, groups * out_channels, out).
struct ConvShape {
  int64_t batch, groups, in_channels, out_channels;
  Triple in, out, kernel, stride, padding, dilation;

  int64_t taps() const { return volume(kernel); }
  int64_t depth() const { return in_channels * taps(); }
  int64_t image() const { return in_channels * volume(in); }     // of x, one group
  int64_t result() const { return out_channels * volume(out); }  // of y, one group
  int64_t weights() const { return out_channels * depth(); }     // of w, one group
  bool is_pointwise() const;
  bool is_depthwise() const { return in_channels == 1 && out_channels == 1; }
};

// Each takes whole tensors, overwrites its output, and may be given a null bias.
template <class T>
void conv_by_columns(const ConvShape& s, const T* x, const T* w, const T* bias, T* y);
template <class T>
void conv_grad_input_by_columns(const ConvShape& s, const T* g, const T* w, const T* bias, T* x);
template <class T>
void conv_grad_weight_by_columns(const ConvShape& s, const T* x, const T* g, T* w);

// Whether padded images are of a size that can be afforded, whatever the kernel's reach.
bool are_sensible(const ConvShape& s);

// Whether planes are the faster method for y, for x, and for w.
template <class T>
bool prefers_planes(const ConvShape& s);
template <class T>
bool prefers_planes_for_input(const ConvShape& s);
bool prefers_planes_for_weight(const ConvShape& s);
template <class T>
void conv_by_planes(const ConvShape& s, const T* x, const T* w, const T* bias, T* y);
template <class T>
void conv_grad_input_by_planes(const ConvShape& s, const T* g, const T* w, const T* bias, T* x);
template <class T>
void conv_grad_weight_by_planes(const ConvShape& s, const T* x, const T* g, T* w);

// Of tensors whose channels lie last: x (batch, in, channels), w (groups * out_channels, kernel,
// in_channels), y (batch, out, channels). Whether that is a method for a result of so many channels in a
// group; otherwise tensors are better copied into the usual order.
template <class T>
bool prefers_channels_last(const ConvShape& s, int64_t columns);
template <class T>
void conv_channels_last(const ConvShape& s, const T* x, const T* w, const T* bias, T* y);
template <class T>
void conv_grad_input_channels_last(const ConvShape& s, const T* g, const T* w, const T* bias, T* x);
template <class T>
void conv_grad_weight_channels_last(const ConvShape& s, const T* x, const T* g, T* w);

}  // namespace tapegrad::cpu
