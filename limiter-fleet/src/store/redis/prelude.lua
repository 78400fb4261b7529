-- The beginning of the scripts about lists.
local call, format = redis.call, string.format
local time = call('TIME')
local now = time[1] * 1000000 + time[2]

-- A number that a script has stored; 0 for anything else.
local function number(text)
  return text and #text <= 16 and string.find(text, '^%d+$') and tonumber(text) or 0
end

-- True if the key is a hash, or nothing.
local function is_hash(key)
  local kind = call('TYPE', key)
  kind = kind.ok or kind
  return kind == 'hash' or kind == 'none'
end

