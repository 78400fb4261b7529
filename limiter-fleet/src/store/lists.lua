-- Reads a list.
--
-- KEYS: the revision of all lists; the list. ARGV: maximum prefixes of a list.
-- Answer: the store's time (us); revision; number of prefixes on the list (-1: the key is not a list); and prefix,
--         value, prefix, value..., without entries longer than limiter writes. reply.rs derives the longest reply
--         from this.
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
