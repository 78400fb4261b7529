-- One round of one member: what it has charged is added to the records, and what they say is the answer.
--
-- KEYS: the member's last round; then a record each.
-- ARGV: the round's number; how many terms there are; of each its cost (ns a packet), cap (ns), life (ms); then, of
--       each record, the packets, and the number of its terms.
-- Answer: three whole numbers a record: born (us), total (packets), level (ns). Zeros: there is none.
--
-- A record is four doubles: BORN in microseconds of this store; TOTAL packets; the bucket's theoretical arrival time
-- in nanoseconds after BORN, where a double is exact for 104 days; and when the key expires, in microseconds.
local MOST = 9007199254740991
local DAY = 86400000
local AT_ONCE = 1000

local call, floor, min = redis.call, math.floor, math.min
local pack, unpacked = struct.pack, struct.unpack
-- Globals are looked up by name, each time.
local tonumber, unpack, KEYS, ARGV = tonumber, unpack, KEYS, ARGV

local time = call('TIME')
local now = time[1] * 1000000 + time[2]

local number = tonumber(ARGV[1])
-- MGET says that there is nothing where GET fails, because somebody has put another type there.
local last = call('MGET', KEYS[1])[1]
last = last and #last <= 16 and string.find(last, '^%d+$') and tonumber(last) or 0
local is_new = number > last
if is_new then
  -- First: whatever happens below, nothing is counted twice.
  call('SET', KEYS[1], ARGV[1], 'PX', DAY)
end

local cost, cap, life, lives = {}, {}, {}, {}
for i = 1, tonumber(ARGV[2]) do
  cost[i] = tonumber(ARGV[3 * i])
  cap[i] = tonumber(ARGV[3 * i + 1])
  lives[i] = ARGV[3 * i + 2]
  life[i] = tonumber(lives[i]) * 1000
end
local before = 3 * #cost - 2

local answer, n = {}, 0
for from = 2, #KEYS, AT_ONCE do
  local to = min(from + AT_ONCE - 1, #KEYS)
  local values = call('MGET', unpack(KEYS, from, to))
  for i = from, to do
    local value = values[i - from + 1]
    local packets = is_new and tonumber(ARGV[before + 2 * i + 1]) or 0
    local terms = tonumber(ARGV[before + 2 * i + 2])
    local born, total, tat, ends
    if value and #value == 32 then
      born, total, tat, ends = unpacked('<dddd', value)
      -- Of another form, or nearly worn out: no record. Comparisons with what is not a number fail.
      if not (born >= 1 and born <= MOST and floor(born) == born
          and total >= 0 and total <= MOST - packets and floor(total) == total
          and tat >= -MOST and tat <= MOST and floor(tat) == tat) then
        born = nil
      end
    end
    if not born and packets > 0 then
      born, total, tat, ends = now, 0, 0, 0
    end
    if born then
      local at = (now - born) * 1000
      local level = tat > at and tat - at or 0
      level = min(level + floor(packets * cost[terms]), cap[terms])
      if packets > 0 then
        total = total + packets
        local left = ends - now
        if left >= life[terms] / 2 and left <= life[terms] then
          -- Twice as fast as SET, and the key expires when it was going to.
          call('SETRANGE', KEYS[i], '0', pack('<dddd', born, total, at + level, ends))
        else
          call('SET', KEYS[i], pack('<dddd', born, total, at + level, now + life[terms]), 'PX', lives[terms])
        end
      end
      answer[n + 1], answer[n + 2], answer[n + 3] = born, total, level
    else
      answer[n + 1], answer[n + 2], answer[n + 3] = 0, 0, 0
    end
    n = n + 3
  end
end
return answer
