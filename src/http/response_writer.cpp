#include "http/response_writer.h"

#include "http/exchange.h"

namespace pacer::http {

ResponseWriter::ResponseWriter(std::shared_ptr<Exchange> exchange)
    : exchange_(std::move(exchange)) {}
ResponseWriter::~ResponseWriter() {
  exchange_->abandon();
}

void ResponseWriter::send(Response response) {
  exchange_->send(std::move(response));
}
void ResponseWriter::begin_stream(int status, Headers headers) {
  exchange_->begin_stream(status, std::move(headers));
}
void ResponseWriter::write(std::string data) {
  exchange_->write(std::move(data));
}
void ResponseWriter::end() {
  exchange_->end();
}
void ResponseWriter::ping_every(Duration every, std::string data) {
  exchange_->ping_every(every, std::move(data));
}
size_t ResponseWriter::buffered_bytes() const {
  return exchange_->buffered_bytes();
}
void ResponseWriter::on_gone(std::function<void()> f) {
  exchange_->on_gone(std::move(f));
}
bool ResponseWriter::gone() const {
  return exchange_->gone();
}

}  // namespace pacer::http
