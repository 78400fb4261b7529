-- Changes a list.
--
-- KEYS: the list; the record of all lists.
-- ARGV: maximum prefixes of a list; the birth of the lists that the agent knows (0: it knows none); the host that adds
--       the prefixes (JSON), or '' to remove them; the time left (us, or ''); then the prefixes.
-- Answer: 0 done, 1 too many, 2 the key is not a list, 3 the lists that the agent knows were lost; number of prefixes
--         added or removed; revision.
--
-- The record has the revision of all lists, their birth, and the length of each list. A list that is shorter was evicted.
-- Revision and birth are times, not counts: a store that has lost its data does not repeat them.
local MOST = 9007199254740991

if not is_hash(KEYS[2]) then
  call('DEL', KEYS[2])
end
local name = 'n:' .. string.match(KEYS[1], ':list:(.*)$')
local record = call('HMGET', KEYS[2], 'revision', 'born', name)
local old, born = number(record[1]), number(record[2])
if not is_hash(KEYS[1]) then
  return { 2, 0, old }
end
local length = call('HLEN', KEYS[1])
if ARGV[2] ~= '0' and (born ~= tonumber(ARGV[2]) or length < number(record[3])) then
  return { 3, 0, old }
end
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
if ARGV[3] ~= '' then
  if length > most then
    return { 1, 0, old }
  end
  clear()
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
else
  for i = 5, #ARGV do
    changed = changed + call('HDEL', KEYS[1], ARGV[i])
  end
end

if changed > 0 then
  old = old < MOST and math.max(old + 1, now) or now
  call('HSET', KEYS[2], 'revision', format('%.0f', old), 'born', format('%.0f', born > 0 and born or now),
    name, call('HLEN', KEYS[1]))
end
return { 0, changed, old }
