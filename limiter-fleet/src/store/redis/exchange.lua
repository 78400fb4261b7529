-- One round of one member: adds the member's charges to the records, and answers with the records.
--
-- KEYS: the member's last round; then the records.
-- ARGV: the round's number; the number of terms; cost (ns per packet), cap (ns) and life (ms) of each term; then
--       packets and number of the term for each record.
-- Answer: three whole numbers per record: born (us), total (packets), level (ns). Zeros: there is no record.
--
-- A record is four doubles: BORN in microseconds of this store; TOTAL packets; the bucket's theoretical arrival time
-- in nanoseconds after BORN, where a double is exact for 104 days; and the key's time of expiry, in microseconds.
local MOST = 9007199254740991
local DAY = 86400000

local call, floor, min = redis.call, math.floor, math.min
local pack, unpacked = struct.pack, struct.unpack
-- Locals are faster: each use of a global looks up its name.
local tonumber, unpack, KEYS, ARGV = tonumber, unpack, KEYS, ARGV

local time = call('TIME')
local now = time[1] * 1000000 + time[2]

local number = tonumber(ARGV[1])
-- If the key has another type, MGET returns nothing, and GET would fail.
local last = call('MGET', KEYS[1])[1]
last = last and #last <= 16 and string.find(last, '^%d+$') and tonumber(last) or 0
local is_new = number > last
if is_new then
  -- Written first: if the script fails below, no packet is counted twice.
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
local values = call('MGET', unpack(KEYS, 2))
for i = 2, #KEYS do
  local value = values[i - 1]
  local packets = is_new and tonumber(ARGV[before + 2 * i + 1]) or 0
  local terms = tonumber(ARGV[before + 2 * i + 2])
  local born, total, tat, ends
  if value and #value == 32 then
    born, total, tat, ends = unpacked('<dddd', value)
    -- Ignores malformed records, and totals too large for a double. Comparisons with NaN are false.
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
        -- Twice as fast as SET, and keeps the key's time of expiry.
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
return answer
