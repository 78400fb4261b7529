-- Reads lists.
--
-- KEYS: the revision of all lists; then a list each.
-- ARGV: how many prefixes a list may have.
-- Answer: this store's time (us); revision; then of each list: how many prefixes it has (-1: the key is not a list), and
--         prefix, value, prefix, value... What is longer than any that was put there in earnest stays here.
-- What the client takes for a reply is reckoned from this (reply.rs).
local PREFIX, VALUE = 43, 320
local call = redis.call
local time = call('TIME')
local revision = call('MGET', KEYS[1])[1]
revision = revision and #revision <= 16 and string.find(revision, '^%d+$') and tonumber(revision) or 0

local answer = { time[1] * 1000000 + time[2], revision }
for i = 2, #KEYS do
  local kind = call('TYPE', KEYS[i])
  kind = kind.ok or kind
  local list
  if kind ~= 'hash' and kind ~= 'none' then
    list = { -1 }
  else
    list = { call('HLEN', KEYS[i]) }
    if list[1] <= tonumber(ARGV[1]) then
      local all = call('HGETALL', KEYS[i])
      for j = 1, #all, 2 do
        if #all[j] <= PREFIX and #all[j + 1] <= VALUE then
          list[#list + 1] = all[j]
          list[#list + 1] = all[j + 1]
        end
      end
    end
  end
  answer[i + 1] = list
end
return answer
