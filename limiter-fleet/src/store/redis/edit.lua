-- Changes a list.
--
-- KEYS: the list; the revision of all lists.
-- ARGV: maximum prefixes of a list; the host that adds the prefixes (JSON), or '' to remove them; the time left (us, or
--       ''); then the prefixes.
-- Answer: 0 done, 1 too many, 2 the key is not a list; number of prefixes added or removed; revision.
--
-- The revision is a time, not a count: a store that has lost its data does not repeat an old revision.
local MOST = 9007199254740991
local call, format = redis.call, string.format

local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local old = call('MGET', KEYS[2])[1]
old = old and #old <= 16 and string.find(old, '^%d+$') and tonumber(old) or 0

local kind = call('TYPE', KEYS[1])
kind = kind.ok or kind
if kind ~= 'hash' and kind ~= 'none' then
  return { 2, 0, old }
end
local length = call('HLEN', KEYS[1])
local most = tonumber(ARGV[1])

-- Removes expired prefixes. Hosts know when entries expire: that needs no new revision.
local function clear()
  local all = call('HGETALL', KEYS[1])
  for i = 1, #all, 2 do
    local ends = string.match(all[i + 1], '"until":(%d+)}$')
    if ends and tonumber(ends) <= now then
      length = length - call('HDEL', KEYS[1], all[i])
    end
  end
end

local changed = 0
if ARGV[2] ~= '' then
  if length > most then
    return { 1, 0, old }
  end
  clear()
  for i = 4, #ARGV do
    length = length + 1 - call('HEXISTS', KEYS[1], ARGV[i])
  end
  if length > most then
    return { 1, 0, old }
  end
  local ends = ARGV[3] == '' and 'null' or format('%.0f', now + ARGV[3])
  local value = format('{"by":%s,"at":%.0f,"until":%s}', ARGV[2], now, ends)
  for i = 4, #ARGV do
    call('HSET', KEYS[1], ARGV[i], value)
    changed = changed + 1
  end
else
  for i = 4, #ARGV do
    changed = changed + call('HDEL', KEYS[1], ARGV[i])
  end
end

if changed > 0 then
  old = old < MOST and math.max(old + 1, now) or now
  call('SET', KEYS[2], format('%.0f', old))
end
return { 0, changed, old }
