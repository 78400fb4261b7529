-- Says how a member holds the limits that it shares, and learns how others hold theirs.
--
-- KEYS: the limits. ARGV: how old what a living member has said may be (us); how many are kept; how many are not held any
--       more; these; those that are held.
-- Answer: those that living members hold. What is longer than any that was put there in earnest stays here.
local LONGEST = 400
-- A clock that has gone back, or somebody's invention.
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
local gone = tonumber(ARGV[3])
for i = 4, #ARGV do
  if i <= 3 + gone then
    call('ZREM', KEYS[1], ARGV[i])
  else
    call('ZADD', KEYS[1], score(now), ARGV[i])
  end
end
local since = score(now - ARGV[1])
call('ZREMRANGEBYSCORE', KEYS[1], '-inf', '(' .. since)
call('ZREMRANGEBYSCORE', KEYS[1], '(' .. score(now + AHEAD), '+inf')
call('ZREMRANGEBYRANK', KEYS[1], 0, -1 - ARGV[2])
call('PEXPIRE', KEYS[1], DAY)

local answer = {}
for _, held in ipairs(call('ZRANGEBYSCORE', KEYS[1], since, '+inf')) do
  if #held <= LONGEST then
    answer[#answer + 1] = held
  end
end
return answer
