-- Reads a part of a list.
--
-- KEYS: the record of all lists; the list.
-- ARGV: maximum prefixes of a list; the place where the part begins ('0': the beginning); prefixes per part (about).
-- Answer: the store's time (us); revision; birth of all lists; the list's recorded length; number of prefixes on the list
--         (-1: the key is not a list); the place of the next part ('0': there is none); and prefix, value, prefix,
--         value..., without entries longer than limiter writes. socket.rs derives the longest reply from this.
local PREFIX, VALUE = 43, 320
local name = 'n:' .. string.match(KEYS[2], ':list:(.*)$')
local record = is_hash(KEYS[1]) and call('HMGET', KEYS[1], 'revision', 'born', name) or {}

local length, place, list = -1, '0', {}
if is_hash(KEYS[2]) then
  length = call('HLEN', KEYS[2])
  if length <= tonumber(ARGV[1]) then
    local part = call('HSCAN', KEYS[2], ARGV[2], 'COUNT', ARGV[3])
    place = part[1]
    for i = 1, #part[2], 2 do
      local prefix, value = part[2][i], part[2][i + 1]
      if #prefix <= PREFIX and #value <= VALUE then
        list[#list + 1] = prefix
        list[#list + 1] = value
      end
    end
  end
end
return {
  now, number(record[1]), number(record[2]), number(record[3]), length, place, list,
}
