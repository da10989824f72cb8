// The part of the model that contents are about: which ones there are, who finds and who publishes them.
#include <algorithm>

#include "store_model.hpp"

using pagedkv::BlockId;

// Few ids, so that prompts have heads in common: one a block, now and then another one within it.
std::int32_t StoreModel::new_id(std::int64_t position) const {
    const std::int64_t block = position / size;
    const bool odd = pattern >= 128 && position % 7 == 6;
    return static_cast<std::int32_t>((pattern >> (block % 4)) & 1) + (odd ? 2 : 0);
}

std::map<std::int64_t, std::string> StoreModel::cover_columns(const std::vector<pagedkv::Cover>& covers) const {
    std::map<std::int64_t, std::string> columns;
    for (const pagedkv::Cover& c : covers)
        for (std::int64_t p = c.start; p < c.stop; ++p)
            columns[p / size] += std::to_string(p % size) + "=" + std::to_string(p - c.start) + ":" + c.digest + ";";
    return columns;
}

ModelContent StoreModel::content_of(const ModelSequence& s, std::int64_t columns) const {
    ModelContent content{s.salt, {}};
    for (std::int64_t i = 0; i < columns; ++i) {
        const auto first = s.ids.begin() + i * size;
        const auto cover = s.covers.find(i);
        content.chain.push_back({{first, first + size}, cover == s.covers.end() ? "" : cover->second});
    }
    return content;
}

std::vector<BlockId> StoreModel::find_prefix(const ModelSequence& prompt, std::optional<std::int64_t> most) const {
    std::vector<BlockId> hits;
    const std::int64_t tokens = std::min(prompt.known(), most.value_or(prompt.known() - 1));
    for (std::int64_t i = 1; caching && i * size <= tokens; ++i) {
        const BlockId b = contents.find(content_of(prompt, i));
        if (b < 0) break;
        hits.push_back(b);
    }
    return hits;
}

void StoreModel::take_hits(ModelSequence& s, const std::vector<BlockId>& hits) {
    for (const BlockId b : hits) {
        lists.remove(b);
        s.table.push_back(b);
        const std::vector<std::int64_t> there = content(b);
        s.tokens.insert(s.tokens.end(), there.begin(), there.end());
    }
    s.length = s.committed = static_cast<std::int64_t>(s.tokens.size());
    s.published = static_cast<std::int64_t>(hits.size());
    for (std::int64_t p = 0; p < s.length; ++p)
        demand(token_ids[static_cast<std::size_t>(s.tokens[static_cast<std::size_t>(p)])] == s.ids[static_cast<std::size_t>(p)],
               "the memory of a hit is not what the prompt says");
}

void StoreModel::publish_columns(ModelSequence& s) {
    const std::int64_t full = std::min(std::min(s.committed, s.known()) / size, s.stop);
    for (; caching && s.published < full; ++s.published) {
        const auto column = static_cast<std::size_t>(s.published);
        if (block(s.table[column]).published) continue;
        if (column > 0 && !block(s.table[column - 1]).published) return;
        publish(s.table[column]);
        contents.publish(s.table[column], content_of(s, s.published + 1));
    }
}

void StoreModel::cut_content(ModelSequence& s, std::int64_t length) const {
    if (length >= s.length) return;
    const std::int64_t column = length / size;
    s.ids.resize(static_cast<std::size_t>(std::min(s.known(), length)));
    s.published = std::min(s.published, column);
    if (length % size != 0 && s.covers.contains(column)) s.stop = std::min(s.stop, column);
    s.covers.erase(s.covers.lower_bound(column), s.covers.end());
}
