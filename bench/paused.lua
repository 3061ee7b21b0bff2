-- For wrk: the requests of another script, or of none, with a pause before each.
--
--   BENCH_SCRIPT  the other script

if os.getenv("BENCH_SCRIPT") then
  dofile(os.getenv("BENCH_SCRIPT"))
end

function delay()
  return 50 -- ms
end
