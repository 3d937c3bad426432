"""Code that removes known causes, a few lines each."""

PUSH_BATCH = """\
at = (self.position + np.arange(len(actions))) % self.capacity
self.obs[at], self.next_obs[at] = obs, next_obs  # arrays, allocated once
self.actions[at], self.rewards[at], self.dones[at] = actions, rewards, dones
self.position = int(at[-1] + 1) % self.capacity
self.size = min(self.size + len(at), self.capacity)"""
SAMPLE_ARRAYS = """\
# in __init__: self.obs = np.zeros((capacity, obs_size), np.float32), and so on
at = np.random.randint(0, self.size, batch_size)
columns = (self.obs, self.actions, self.rewards, self.next_obs, self.dones)
return tuple(torch.from_numpy(column[at]) for column in columns)"""
ONE_COPY = """\
values = tensor.detach().cpu().numpy()  # one copy, before the loop
for value in values:
    ..."""
FEWER_UPDATES = """\
for _ in range(1):  # updates per vector step; compare what is learned before you decide
    loss = update()"""
RARE_RECORDS = """\
rows.append(row)  # in memory
if time.monotonic() - written > 5:
    writer.writerows(rows)
    rows.clear()
    written = time.monotonic()"""
RARE_CHECKPOINTS = """\
if time.monotonic() - saved > 60:
    save_checkpoint()
    saved = time.monotonic()"""
VECTOR_ENVS = """\
envs = gymnasium.make_vec("CartPole-v1", num_envs=16)
obs, _ = envs.reset()
actions = policy(torch.as_tensor(obs)).argmax(1).numpy()  # one forward pass for all
obs, rewards, terminated, truncated, _ = envs.step(actions)"""
LARGER_BATCHES = """\
batch_size, updates = {times} * batch_size, updates // {times}  # the same samples, fewer calls"""
CACHED = """\
@functools.cache  # if the result depends on the arguments alone
def features(cell): ...

# or compile the inner loop: @numba.njit on a function of arrays"""
RUNNING_MEAN = """\
self.count += 1
self.mean += (value - self.mean) / self.count  # instead of a mean over the whole history"""
DETACHED = """\
losses.append(loss.item())  # a number; the tensor keeps its whole graph alive
total_loss += loss.item()"""
COMPILED_ONCE = """\
fast = torch.compile(network)  # once, before the loop; the same for torch.jit.trace
for step in range(total_steps):
    actions = fast(obs)"""
SINGLE_PRECISION = """\
torch.set_default_dtype(torch.float32)  # the default
obs = torch.as_tensor(obs, dtype=torch.float32)  # NumPy computes in float64"""
IN_PROCESS = """\
envs = gymnasium.make_vec(name, num_envs, vectorization_mode="sync")  # or SyncVectorEnv"""
RARE_EVALUATION = """\
if step - evaluated >= 50_000:
    evaluate(policy)
    evaluated = step"""
WHOLE_ARRAYS = """\
for t in reversed(range(length)):  # one loop at most; all environments in one operation
    delta = rewards[t] + gamma * values[t + 1] * alive[t] - values[t]
    carried = advantages[t] = delta + gamma * lam * alive[t] * carried"""
ONE_ARRAY = """\
obs = torch.as_tensor(np.asarray(rows, dtype=np.float32))  # one array, one copy; or keep arrays"""
RING = """\
buffer = np.zeros((capacity, size), np.float32)  # once
buffer[position % capacity] = row
position += 1"""
REUSED_ENV = """\
env = gymnasium.make(name)  # once, before the loop
obs, _ = env.reset()  # per episode"""
