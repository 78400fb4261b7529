-- Puts prefixes back that the store has lost. Prefixes that are there stay as they are.
--
-- KEYS: the list; the record of all lists.
-- ARGV: maximum prefixes of a list; the revision of which the agent knows the list; 1 if no more of it follows; then
--       prefix, author (JSON), age (us) and time left (us, or '') of each entry.
-- Answer: 0 done, 1 too many, 2 the key is not a list, 3 an agent has put this revision or a later one back.
--
-- The record notes nothing before the list is complete: hosts keep what they have until then.
local MOST = 9007199254740991

if not is_hash(KEYS[2]) then
  call('DEL', KEYS[2])
end
local name = string.match(KEYS[1], ':list:(.*)$')
local record = call('HMGET', KEYS[2], 'revision', 'born', 'r:' .. name)
local old, born = number(record[1]), number(record[2])
if number(record[3]) >= tonumber(ARGV[2]) then
  return 3
end
if not is_hash(KEYS[1]) then
  return 2
end
local length = call('HLEN', KEYS[1])
for i = 4, #ARGV, 4 do
  if call('HEXISTS', KEYS[1], ARGV[i]) == 0 then
    length = length + 1
  end
end
if length > tonumber(ARGV[1]) then
  return 1
end
for i = 4, #ARGV, 4 do
  if call('HEXISTS', KEYS[1], ARGV[i]) == 0 then
    local ends = ARGV[i + 3] == '' and 'null' or format('%.0f', now + ARGV[i + 3])
    local added = format('%.0f', math.max(now - ARGV[i + 2], 0))
    call('HSET', KEYS[1], ARGV[i], format('{"by":%s,"at":%s,"until":%s}', ARGV[i + 1], added, ends))
  end
end
if ARGV[3] == '1' then
  old = old < MOST and math.max(old + 1, now) or now
  call('HSET', KEYS[2], 'revision', format('%.0f', old), 'born', format('%.0f', born > 0 and born or now),
    'n:' .. name, call('HLEN', KEYS[1]), 'r:' .. name, ARGV[2])
end
return 0
