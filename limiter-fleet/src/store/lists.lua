-- Reads a list.
--
-- KEYS: the revision of all lists; the list. ARGV: how many prefixes a list may have.
-- Answer: this store's time (us); revision; how many prefixes the list has (-1: the key is not a list); and prefix, value,
--         prefix, value... What is longer than any that was put there in earnest stays here.
-- What the client takes for a reply is reckoned from this (reply.rs).
local PREFIX, VALUE = 43, 320
local call = redis.call
local time = call('TIME')
local revision = call('MGET', KEYS[1])[1]
revision = revision and #revision <= 16 and string.find(revision, '^%d+$') and tonumber(revision) or 0

local kind = call('TYPE', KEYS[2])
kind = kind.ok or kind
local length, list = -1, {}
if kind == 'hash' or kind == 'none' then
  length = call('HLEN', KEYS[2])
  if length <= tonumber(ARGV[1]) then
    local all = call('HGETALL', KEYS[2])
    for i = 1, #all, 2 do
      if #all[i] <= PREFIX and #all[i + 1] <= VALUE then
        list[#list + 1] = all[i]
        list[#list + 1] = all[i + 1]
      end
    end
  end
end
return { time[1] * 1000000 + time[2], revision, length, list }
