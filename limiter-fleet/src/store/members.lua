-- Lists the members that were heard of last.
--
-- KEYS: the members. ARGV: how many at most.
-- Answer: member, when it was heard of (us), member... What is longer than any member stays here.
local LONGEST = 160
local kind = redis.call('TYPE', KEYS[1])
if (kind.ok or kind) ~= 'zset' then
  return {}
end
local all = redis.call('ZREVRANGE', KEYS[1], 0, ARGV[1] - 1, 'WITHSCORES')
local answer = {}
for i = 1, #all, 2 do
  if #all[i] <= LONGEST then
    answer[#answer + 1] = all[i]
    answer[#answer + 1] = all[i + 1]
  end
end
return answer
