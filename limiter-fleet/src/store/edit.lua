-- Changes a list.
--
-- KEYS: the list; the revision of all lists; the removed prefixes of the list.
-- ARGV: 'add', 'restore' (only missing prefixes), 'remove' or 'clear' (expired prefixes); maximum prefixes of a list;
--       then the prefixes. To add or restore, each prefix is followed by the host (JSON), the time left (us, or ''),
--       and the age (us).
-- Answer: 0 done, 1 too many, 2 the key is not a list; number of prefixes added, changed or removed; revision.
--
-- The revision is a time, not a count: a store that has lost its data does not repeat an old revision.
--
-- After a loss, each host restores the prefixes that it knows. Removed prefixes are kept for 10 minutes, so that no
-- host brings them back. A prefix that is added again is not kept any longer.
local MOST = 9007199254740991
local REMOVED, REMOVED_MS = 600000000, 600000
local call, format = redis.call, string.format

local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local old = call('MGET', KEYS[2])[1]
old = old and #old <= 16 and string.find(old, '^%d+$') and tonumber(old) or 0

local function is_kind(key, wanted)
  local kind = call('TYPE', key)
  kind = kind.ok or kind
  return kind == wanted or kind == 'none'
end

if not is_kind(KEYS[1], 'hash') then
  return { 2, 0, old }
end
if not is_kind(KEYS[3], 'zset') then
  call('DEL', KEYS[3])
end
call('ZREMRANGEBYSCORE', KEYS[3], '-inf', format('%.0f', now - REMOVED))
local function keep_removed(prefix) call('ZADD', KEYS[3], format('%.0f', now), prefix) end

local length = call('HLEN', KEYS[1])
local most = tonumber(ARGV[2])

local changed = 0
if ARGV[1] == 'add' or ARGV[1] == 'restore' then
  for i = 3, #ARGV, 4 do
    length = length + 1 - call('HEXISTS', KEYS[1], ARGV[i])
  end
  if length > most then
    return { 1, 0, old }
  end
  for i = 3, #ARGV, 4 do
    local ends = ARGV[i + 2] == '' and 'null' or format('%.0f', now + ARGV[i + 2])
    local value = format('{"by":%s,"at":%.0f,"until":%s}', ARGV[i + 1], now - ARGV[i + 3], ends)
    local was_removed = call('ZREM', KEYS[3], ARGV[i]) == 1
    if ARGV[1] == 'restore' and was_removed then
      keep_removed(ARGV[i])
    elseif ARGV[1] == 'add' or call('HEXISTS', KEYS[1], ARGV[i]) == 0 then
      call('HSET', KEYS[1], ARGV[i], value)
      changed = changed + 1
    end
  end
elseif ARGV[1] == 'remove' then
  for i = 3, #ARGV do
    -- A prefix that the store has lost is removed too.
    changed = changed + call('HDEL', KEYS[1], ARGV[i])
    keep_removed(ARGV[i])
  end
  call('ZREMRANGEBYRANK', KEYS[3], 0, -1 - most)
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

call('PEXPIRE', KEYS[3], REMOVED_MS)

-- Hosts know when entries expire: removing expired entries needs no new revision.
if changed > 0 and ARGV[1] ~= 'clear' then
  old = old < MOST and math.max(old + 1, now) or now
  call('SET', KEYS[2], format('%.0f', old))
end
return { 0, changed, old }
