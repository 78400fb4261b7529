-- Changes a list.
--
-- KEYS: the list; the revision of all lists.
-- ARGV: 'add', 'remove' or 'clear' (expired prefixes); maximum prefixes of a list; then the prefixes. To add, the host
--       (JSON) and the time left (us, or '') come before the prefixes.
-- Answer: 0 done, 1 too many, 2 the key is not a list; number of prefixes added, changed or removed; revision.
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
local most = tonumber(ARGV[2])

local changed = 0
if ARGV[1] == 'add' then
  for i = 5, #ARGV do
    length = length + 1 - call('HEXISTS', KEYS[1], ARGV[i])
  end
  if length > most then
    return { 1, 0, old }
  end
  local ends = ARGV[4] == '' and 'null' or format('%.0f', now + ARGV[4])
  local value = format('{"by":%s,"at":%.0f,"until":%s}', ARGV[3], now, ends)
  for i = 5, #ARGV do
    call('HSET', KEYS[1], ARGV[i], value)
    changed = changed + 1
  end
elseif ARGV[1] == 'remove' then
  for i = 3, #ARGV do
    changed = changed + call('HDEL', KEYS[1], ARGV[i])
  end
else
  if length > most then
    return { 1, 0, old }
  end
  local all = call('HGETALL', KEYS[1])
  for i = 1, #all, 2 do
    local ends = string.match(all[i + 1], '"until":(%d+)}$')
    if ends and tonumber(ends) <= now then
      changed = changed + call('HDEL', KEYS[1], all[i])
    end
  end
end

-- Hosts know when entries expire: removing expired entries needs no new revision.
if changed > 0 and ARGV[1] ~= 'clear' then
  old = old < MOST and math.max(old + 1, now) or now
  call('SET', KEYS[2], format('%.0f', old))
end
return { 0, changed, old }
