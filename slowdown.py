import json, sys

a, b = [json.load(open(p + "/verdict.json"))["slowdown"] for p in sys.argv[1:3]]
print(a, b)
sys.exit((a is None) != (b is None) or (a is not None and abs(a / b - 1) > float(sys.argv[3])))
