// JSON, as far as files of programs and tensors have it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tapegrad::api {

class Json {
 public:
  enum class Kind { Null, Bool, Int, Float, String, List, Object };

  // Throws ValueError where the text is no JSON, nests too deeply, or has whole numbers beyond 64 bits.
  static Json parse(std::string_view text);

  Kind kind() const { return kind_; }
  // Each throws ValueError if it is something else.
  bool boolean() const;
  int64_t integer() const;
  double number() const;  // whole ones, too
  const std::string& string() const;
  const std::vector<Json>& list() const;
  const std::vector<std::pair<std::string, Json>>& object() const;
  const Json& at(size_t i) const;
  const Json& at(std::string_view key) const;
  // Null where there is none.
  const Json* find(std::string_view key) const;

 private:
  friend class JsonReader;
  void expect(Kind kind, const char* what) const;

  Kind kind_ = Kind::Null;
  bool bool_ = false;
  int64_t int_ = 0;
  double float_ = 0;
  std::string string_;
  std::vector<Json> list_;
  std::vector<std::pair<std::string, Json>> object_;
};

}  // namespace tapegrad::api
