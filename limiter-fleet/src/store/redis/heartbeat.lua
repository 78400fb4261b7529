-- Stores a member's heartbeat with its limits. Answers with the live members and their limits.
--
-- KEYS: the members; the limits; the record of all lists; then the lists that the member shares. Each heartbeat reads
--       their lengths: a server that evicts keys takes those first that nobody reads.
-- ARGV: maximum age of a live member's heartbeat (us); maximum members kept; maximum limits kept; the member; its
--       limits.
-- Answer: number of live members; age of the oldest heartbeat among them (us); revision; 1 if a list is shorter than
--         its recorded length; their limits, without entries longer than a member writes.
local FORGOTTEN = 60000000
-- Entries further in the future are removed: the store's clock went back, or they are forged. Live members send again.
local AHEAD = 1000000
local DAY = 86400000
local LONGEST = 400

local function score(at) return format('%.0f', at) end
local since = score(now - ARGV[1])

-- Adds arguments to a set ordered by time, and removes old, future and surplus entries.
local function keep(key, first, last, from, most)
  local kind = call('TYPE', key)
  kind = kind.ok or kind
  if kind ~= 'zset' and kind ~= 'none' then
    call('DEL', key)
  end
  for i = first, last do
    call('ZADD', key, score(now), ARGV[i])
  end
  call('ZREMRANGEBYSCORE', key, '-inf', '(' .. from)
  call('ZREMRANGEBYSCORE', key, '(' .. score(now + AHEAD), '+inf')
  call('ZREMRANGEBYRANK', key, 0, -1 - most)
  call('PEXPIRE', key, DAY)
end

keep(KEYS[1], 4, 4, score(now - FORGOTTEN), ARGV[2])
keep(KEYS[2], 5, #ARGV, since, ARGV[3])

local alive = call('ZCOUNT', KEYS[1], since, '+inf')
local oldest = call('ZRANGEBYSCORE', KEYS[1], since, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
local age = oldest and now - oldest or 0

local fields = { 'revision' }
for i = 4, #KEYS do
  fields[i - 2] = 'n:' .. string.match(KEYS[i], ':list:(.*)$')
end
local record = is_hash(KEYS[3]) and call('HMGET', KEYS[3], unpack(fields)) or {}
local short = 0
for i = 4, #KEYS do
  if is_hash(KEYS[i]) and call('HLEN', KEYS[i]) < number(record[i - 2]) then
    short = 1
  end
end

local answer = { alive, math.max(age, 0), number(record[1]), short, {} }
for _, held in ipairs(call('ZRANGEBYSCORE', KEYS[2], since, '+inf')) do
  if #held <= LONGEST then
    table.insert(answer[5], held)
  end
end
return answer
