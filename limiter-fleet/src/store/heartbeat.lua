-- A member says that it is there and how it holds its limits, and learns who else is there and how they hold theirs.
--
-- KEYS: the members; the limits; the revision of the lists.
-- ARGV: how old what a living member has said may be (us); how many members are kept; how many limits are kept; the member;
--       the limits that it holds.
-- Answer: this store's time (us); living members; age of the oldest heartbeat among theirs (us); revision; the limits that
--         living members hold. What is longer than any that was put there in earnest stays here.
local FORGOTTEN = 60000000
-- A clock that has gone back, or somebody's invention: who is alive comes again in a moment.
local AHEAD = 1000000
local DAY = 86400000
local LONGEST = 400

local call = redis.call
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local function score(at) return string.format('%.0f', at) end
local since = score(now - ARGV[1])

-- Keeps what members say by when they have said it.
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
local revision = call('MGET', KEYS[3])[1]
revision = revision and #revision <= 16 and string.find(revision, '^%d+$') and tonumber(revision) or 0

local answer = { now, alive, math.max(age, 0), revision, {} }
for _, held in ipairs(call('ZRANGEBYSCORE', KEYS[2], since, '+inf')) do
  if #held <= LONGEST then
    table.insert(answer[5], held)
  end
end
return answer
