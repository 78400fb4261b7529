-- A member says that it is there, and learns who else is.
--
-- KEYS: the members; the revision of the lists.
-- ARGV: the member; how old a heartbeat of a living one may be (us); how many members are kept.
-- Answer: this store's time (us); living members; age of the oldest heartbeat among theirs (us); revision.
local FORGOTTEN = 60000000
-- A clock that has gone back, or somebody's invention: who is alive comes again in a moment.
local AHEAD = 1000000
local DAY = 86400000

local call = redis.call
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local function score(at) return string.format('%.0f', at) end

local kind = call('TYPE', KEYS[1])
kind = kind.ok or kind
if kind ~= 'zset' and kind ~= 'none' then
  call('DEL', KEYS[1])
end
call('ZADD', KEYS[1], score(now), ARGV[1])
call('ZREMRANGEBYSCORE', KEYS[1], '-inf', '(' .. score(now - FORGOTTEN))
call('ZREMRANGEBYSCORE', KEYS[1], '(' .. score(now + AHEAD), '+inf')
call('ZREMRANGEBYRANK', KEYS[1], 0, -1 - ARGV[3])
call('PEXPIRE', KEYS[1], DAY)

local since = score(now - ARGV[2])
local alive = call('ZCOUNT', KEYS[1], since, '+inf')
local oldest = call('ZRANGEBYSCORE', KEYS[1], since, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
local age = oldest and now - oldest or 0
local revision = call('MGET', KEYS[2])[1]
revision = revision and #revision <= 16 and string.find(revision, '^%d+$') and tonumber(revision) or 0
return { now, alive, math.max(age, 0), revision }
