// What a router knows that applies every event: the contents that can be found, by serial.
#pragma once

#include <map>
#include <vector>

#include "content_model.hpp"
#include "pagedkv/cache_events.hpp"

class EventPicture {
public:
    void apply(const pagedkv::EventBatch& batch);
    // Stops the program unless the picture is what can be found. Events do not tell what covers a block.
    void check(const ContentModel& contents) const;

private:
    struct Entry {
        std::int64_t parent = 0, salt = 0;
        std::vector<std::int32_t> tokens;
        auto operator<=>(const Entry&) const = default;
    };
    using Chain = std::pair<std::int64_t, std::vector<std::vector<std::int32_t>>>;

    void stored(std::int64_t serial, const Entry& entry);
    Chain chain(std::int64_t serial) const;

    std::map<std::int64_t, Entry> now_, ever_;
};
