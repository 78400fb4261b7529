-- Reads a part of a list.
--
-- KEYS: the revision of all lists; the list.
-- ARGV: maximum prefixes of a list; the place where the part begins ('0': the beginning); prefixes per part (about).
-- Answer: the store's time (us); revision; number of prefixes on the list (-1: the key is not a list); the place of the
--         next part ('0': there is none); and prefix, value, prefix, value..., without entries longer than limiter
--         writes. link.rs derives the longest reply from this.
local PREFIX, VALUE = 43, 320
local call = redis.call
local time = call('TIME')
local revision = call('MGET', KEYS[1])[1]
revision = revision and #revision <= 16 and string.find(revision, '^%d+$') and tonumber(revision) or 0

local kind = call('TYPE', KEYS[2])
kind = kind.ok or kind
local length, place, list = -1, '0', {}
if kind == 'hash' or kind == 'none' then
  length = call('HLEN', KEYS[2])
  if length <= tonumber(ARGV[1]) then
    local part = call('HSCAN', KEYS[2], ARGV[2], 'COUNT', ARGV[3])
    place = part[1]
    for i = 1, #part[2], 2 do
      local prefix, value = part[2][i], part[2][i + 1]
      if #prefix <= PREFIX and #value <= VALUE then
        list[#list + 1] = prefix
        list[#list + 1] = value
      end
    end
  end
end
return { time[1] * 1000000 + time[2], revision, length, place, list }
