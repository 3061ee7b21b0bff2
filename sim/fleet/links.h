// What lies between a process of a simulated fleet and its two stores: distance, and someone who
// counts what passes. Nothing is lost here; lossy_link.h is for that.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "sim/timeline.h"
#include "weir/ledger.h"
#include "weir/origin.h"

namespace weir::sim {

// The origin of a region as one of its processes sees it. Lives on the timeline.
class NearOrigin final : public RegionalOrigin {
 public:
  struct Seat {
    uint32_t rank = 0;
    uint32_t nodes = 1;
    Millis one_way{0};
  };
  NearOrigin(Timeline& timeline, std::shared_ptr<RegionalOrigin> store, Seat seat)
      : timeline_(timeline), store_(std::move(store)), seat_(seat) {}

  void read(std::vector<CellRead> cells, OriginReply reply) override {
    timeline_.post_in(seat_.one_way,
                      [this, cells = std::move(cells), reply = back(reply)]() mutable {
                        store_->read(std::move(cells), std::move(reply));
                      });
  }
  void replay(std::vector<CellReplay> cells, OriginReply reply) override {
    timeline_.post_in(seat_.one_way,
                      [this, cells = std::move(cells), reply = back(reply)]() mutable {
                        store_->replay(std::move(cells), std::move(reply));
                      });
  }
  void note_published(std::vector<CellPublished> cells) override {
    timeline_.post_in(seat_.one_way, [this, cells = std::move(cells)]() mutable {
      store_->note_published(std::move(cells));
    });
  }
  [[nodiscard]] uint32_t live_nodes() const override { return seat_.nodes; }
  [[nodiscard]] uint32_t rank() const override { return seat_.rank; }

 private:
  [[nodiscard]] OriginReply back(const OriginReply& reply) {
    return [this, reply](Result<std::vector<CellTotals>> totals) {
      auto parcel = std::make_shared<Result<std::vector<CellTotals>>>(std::move(totals));
      timeline_.post_in(seat_.one_way, [reply, parcel] { reply(std::move(*parcel)); });
    };
  }

  Timeline& timeline_;
  const std::shared_ptr<RegionalOrigin> store_;
  const Seat seat_;
};

// What a ledger was asked to do.
struct LedgerLoad {
  uint64_t rows = 0;        // written
  uint64_t presences = 0;   // written beside them
  uint64_t statements = 0;  // that wrote
  uint64_t reads = 0;       // statements that read counts
  uint64_t rows_read = 0;   // and what they answered, presences included

  LedgerLoad& operator+=(const LedgerLoad& other) {
    rows += other.rows;
    presences += other.presences;
    statements += other.statements;
    reads += other.reads;
    rows_read += other.rows_read;
    return *this;
  }
  friend LedgerLoad operator-(const LedgerLoad& a, const LedgerLoad& b) {
    return {.rows = a.rows - b.rows,
            .presences = a.presences - b.presences,
            .statements = a.statements - b.statements,
            .reads = a.reads - b.reads,
            .rows_read = a.rows_read - b.rows_read};
  }
};

// The ledger as one process sees it. Lives on the timeline.
class FarLedger final : public GlobalLedger {
 public:
  using Watch = std::function<void(const LedgerNews& news)>;
  struct Watches {
    Watch sent;
    Watch heard;
  };
  FarLedger(Timeline& timeline, std::shared_ptr<GlobalLedger> store, Millis one_way,
            LedgerLoad& load, Watches watches)
      : timeline_(timeline),
        store_(std::move(store)),
        one_way_(one_way),
        load_(load),
        watches_(std::move(watches)) {}

  void publish(LedgerNews news, PublishReply reply) override {
    load_.rows += news.rows.size();
    load_.presences += news.presences.size();
    ++load_.statements;
    watches_.sent(news);
    timeline_.post_in(
        one_way_, [this, news = std::move(news), reply = back<size_t>(std::move(reply))]() mutable {
          store_->publish(std::move(news), std::move(reply));
        });
  }
  void changes_since(LedgerCursor cursor, ChangesReply reply) override {
    ++load_.reads;
    timeline_.post_in(one_way_, [this, cursor, reply = watched<LedgerChanges>(std::move(reply))] {
      store_->changes_since(cursor, reply);
    });
  }
  void read_page(LedgerPlace place, PageReply reply) override {
    ++load_.reads;
    timeline_.post_in(one_way_, [this, place, reply = watched<LedgerPage>(std::move(reply))] {
      store_->read_page(place, reply);
    });
  }
  void attend(LedgerRegion self, SharingRules rules, FleetReply reply) override {
    timeline_.post_in(one_way_, [this, self, rules, reply = back<LedgerFleet>(std::move(reply))] {
      store_->attend(self, rules, reply);
    });
  }
  void clean(size_t most, CleaningReply reply) override {
    timeline_.post_in(one_way_, [this, most, reply = back<LedgerCleaning>(std::move(reply))] {
      store_->clean(most, reply);
    });
  }

 private:
  template <typename Answer>
  [[nodiscard]] std::function<void(Result<Answer>)> back(
      std::function<void(Result<Answer>)> reply) {
    return [this, reply = std::move(reply)](Result<Answer> answer) {
      auto parcel = std::make_shared<Result<Answer>>(std::move(answer));
      timeline_.post_in(one_way_, [reply, parcel] { reply(std::move(*parcel)); });
    };
  }
  template <typename Answer>
  [[nodiscard]] std::function<void(Result<Answer>)> watched(
      std::function<void(Result<Answer>)> reply) {
    return back<Answer>([this, reply = std::move(reply)](Result<Answer> answer) {
      if (answer) {
        load_.rows_read += answer->news.rows.size() + answer->news.presences.size();
        watches_.heard(answer->news);
      }
      reply(std::move(answer));
    });
  }

  Timeline& timeline_;
  const std::shared_ptr<GlobalLedger> store_;
  const Millis one_way_;
  LedgerLoad& load_;
  const Watches watches_;
};

}  // namespace weir::sim
